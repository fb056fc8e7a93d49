import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { dirname, join } from "node:path";
import { isSea } from "node:sea";
import { pathToFileURL } from "node:url";

/** The modules of the pattern library and of the official clients that the command uses. */
interface Modules {
  "@rowhouse/patterns": typeof import("@rowhouse/patterns");
  "@rowhouse/patterns/advise": typeof import("@rowhouse/patterns/advise");
  "@rowhouse/patterns/azure-queues": typeof import("@rowhouse/patterns/azure-queues");
  "@rowhouse/patterns/azure-tables": typeof import("@rowhouse/patterns/azure-tables");
  "@rowhouse/patterns/index-life-cycle": typeof import("@rowhouse/patterns/index-life-cycle");
  "@rowhouse/patterns/index-scrub": typeof import("@rowhouse/patterns/index-scrub");
  "@rowhouse/patterns/index-states": typeof import("@rowhouse/patterns/index-states");
  "@rowhouse/patterns/queue-worker": typeof import("@rowhouse/patterns/queue-worker");
  "@rowhouse/patterns/testing": typeof import("@rowhouse/patterns/testing");
  "@azure/data-tables": typeof import("@azure/data-tables");
  "@azure/storage-queue": typeof import("@azure/storage-queue");
}

/**
 * The pattern library that is installed for a folder: definitions work only with the copy that created them, and
 * this command includes neither the library nor the clients.
 */
export class Library {
  readonly #require: NodeJS.Require;
  readonly #folder: string;

  constructor(folder: string) {
    this.#folder = folder;
    this.#require = createRequire(join(folder, "package.json"));
  }

  /** @throws Error that names the package if it is not installed, and in the executable, which loads no modules */
  async load<Name extends keyof Modules>(name: Name): Promise<Modules[Name]> {
    if (isSea()) {
      throw new Error(
        "The executable cannot load your definitions: install the npm package rowhouse for this command.",
      );
    }
    const file = this.#fileOf(name);
    // The module's name determines its type.
    return (await import(pathToFileURL(file).href)) as Modules[Name];
  }

  #fileOf(name: string): string {
    let file: string;
    try {
      file = this.#require.resolve(name);
    } catch (cause) {
      const packageName = name.split("/").slice(0, 2).join("/");
      throw new Error(
        `${packageName} is not installed for ${this.#folder}: npm install ${packageName}`,
        {
          cause,
        },
      );
    }
    return name.startsWith("@azure/") ? moduleBeside(file, name) : file;
  }
}

/** The ES module of a package that also has a CommonJS one: the library imports the ES module. */
function moduleBeside(file: string, name: string): string {
  let folder = dirname(file);
  while (!folder.endsWith(name.split("/").join(process.platform === "win32" ? "\\" : "/"))) {
    const parent = dirname(folder);
    if (parent === folder) return file;
    folder = parent;
  }
  const { module } = JSON.parse(readFileSync(join(folder, "package.json"), "utf8"));
  return typeof module === "string" ? join(folder, module) : file;
}
