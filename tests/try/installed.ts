import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdirSync, rmSync } from "node:fs";
import { dirname, join } from "node:path";
import { createInterface } from "node:readline";
import { EmptyFolder, packed, packRowhouse, TRIES_ALL } from "./empty-folder.ts";

const FREE = ["--tablePort", "0", "--queuePort", "0", "--blobPort", "0"];
const KEY =
  "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw==";

export interface Served {
  /** Of the development account's tables. */
  readonly tables: string;
  readonly connection: string;
  /** Everything it has printed on standard output. */
  readonly printed: string;
  readonly pid: number;
  /** Ends it with a signal; returns its exit code. */
  stop(signal?: NodeJS.Signals): Promise<number | null>;
}

/**
 * An empty folder in which the packages can be used. In `npm run try` they are installed with npm; in `npm test`, which
 * has no minute for that, the command is the staged package, and other packages are found in the repository.
 */
export class Installed {
  readonly folder: EmptyFolder;
  readonly #main: string;
  readonly #remove: () => void;

  private constructor(folder: EmptyFolder, main: string, remove: () => void) {
    this.folder = folder;
    this.#main = main;
    this.#remove = remove;
  }

  /** @param others what is installed besides, where something is */
  static async open(others: readonly string[] = []): Promise<Installed> {
    if (TRIES_ALL) {
      const { rowhouse, patterns, remove } = await packed();
      const folder = new EmptyFolder();
      await folder.install(rowhouse.tarball, patterns.tarball, ...others);
      return new Installed(folder, join(folder.path, "node_modules/rowhouse/dist/main.js"), remove);
    }
    const { stage, remove } = await packRowhouse();
    const parent = join(dirname(stage), "users");
    mkdirSync(parent, { recursive: true });
    return new Installed(new EmptyFolder(parent), join(stage, "dist/main.js"), remove);
  }

  /** Runs the command in the folder. @returns what it printed @throws Error if it does not exit with `exitCode` */
  async rowhouse(args: readonly string[], exitCode = 0): Promise<string> {
    const child = spawn(process.execPath, [this.#main, ...args], {
      cwd: this.folder.path,
      stdio: ["ignore", "pipe", "pipe"],
    });
    let printed = "";
    for (const stream of [child.stdout, child.stderr])
      stream.setEncoding("utf8").on("data", (text: string) => {
        printed += text;
      });
    const [code] = await once(child, "close");
    if (code === exitCode) return printed;
    throw new Error(`rowhouse ${args.join(" ")} exited with ${code}:\n${printed}`);
  }

  /** Serves on free ports until it is stopped. */
  async serve(args: readonly string[]): Promise<Served> {
    const child = spawn(process.execPath, [this.#main, "serve", "--silent", ...FREE, ...args], {
      cwd: this.folder.path,
      stdio: ["ignore", "pipe", "inherit"],
    });
    const exited = once(child, "exit");
    const urls = new Map<string, string>();
    let printed = "";
    for await (const line of createInterface({ input: child.stdout })) {
      printed += `${line}\n`;
      const [, service, url] =
        /^Azurite (\w+) service is successfully \w+ at (\S+)$/.exec(line) ?? [];
      if (service !== undefined && url !== undefined) urls.set(service, `${url}/devstoreaccount1`);
      if (urls.size === 3) break;
    }
    if (urls.size < 3) throw new Error(`It did not serve:\n${printed}`);
    child.stdout.resume();
    const endpoints = [...urls].map(([service, url]) => `${service}Endpoint=${url}`).join(";");
    return {
      tables: urls.get("Table")!,
      connection: `DefaultEndpointsProtocol=http;AccountName=devstoreaccount1;AccountKey=${KEY};${endpoints}`,
      printed,
      pid: child.pid!,
      async stop(signal = "SIGTERM") {
        child.kill(signal);
        const [code] = await exited;
        return code;
      },
    };
  }

  remove(): void {
    rmSync(this.folder.path, { recursive: true, force: true });
    this.#remove();
  }
}
