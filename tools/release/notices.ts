import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { inRoot } from "./bundle.ts";

const LINE = `\n${"-".repeat(78)}\n\n`;

/** The licences of the packages that a bundle includes: their authors ask that every copy is accompanied by them. */
export function notices(names: readonly string[]): string {
  const parts = names.map((name) => `${name} ${manifest(name).version}\n\n${licenceOf(name)}\n`);
  return `This program includes the following packages.\n\n${parts.join(LINE)}`;
}

/** The licences of the libraries that are compiled into the storage engine's native part. */
export function notesOfAddon(): string {
  const libraries = {
    LMDB: "lmdb/libraries/liblmdb/LICENSE",
    "LMDB, copyright": "lmdb/libraries/liblmdb/COPYRIGHT",
    LZ4: "lz4/lib/LICENSE",
  };
  const parts = Object.entries(libraries).map(([name, path]) => {
    const text = readFileSync(join(folderOf("lmdb"), "dependencies", path), "utf8");
    return `${name}\n\n${text.trim()}\n`;
  });
  return [
    `${LINE}It also includes the native part of lmdb, with these libraries.\n`,
    ...parts,
  ].join("\n");
}

/** The licences of Node and of all that it is released with. */
export function notesOfNode(version: string, licences: string): string {
  return `${LINE}It is Node.js ${version}, with what that includes.\n\n${licences.trim()}\n`;
}

/** The libraries in the storage engine's native part, as their own headers have them. */
export function versionsOfAddon(): Record<string, string> {
  const headers = {
    LMDB: ["lmdb/libraries/liblmdb/lmdb.h", "MDB_VERSION_", ["MAJOR", "MINOR", "PATCH"]],
    LZ4: ["lz4/lib/lz4.h", "LZ4_VERSION_", ["MAJOR", "MINOR", "RELEASE"]],
  } as const;
  const versions = Object.entries(headers).map(([name, [path, prefix, parts]]) => {
    const text = readFileSync(join(folderOf("lmdb"), "dependencies", path), "utf8");
    const numbers = parts.map((part) => {
      const [, number] = new RegExp(`#define ${prefix}${part}\\s+(\\d+)`).exec(text) ?? [];
      if (number === undefined) throw new Error(`${path} does not define ${prefix}${part}.`);
      return number;
    });
    return [name, numbers.join(".")] as const;
  });
  return Object.fromEntries(versions);
}

/** @throws Error for a package without a licence, which must not be included */
function licenceOf(name: string): string {
  const file = readdirSync(folderOf(name)).find((each) => /^licen[cs]e/i.test(each));
  if (file) return readFileSync(join(folderOf(name), file), "utf8").trim();
  const { license } = manifest(name);
  if (typeof license !== "string") throw new Error(`${name} has no licence.`);
  return license;
}

export function manifest(name: string): { readonly version: string; readonly license?: unknown } {
  return JSON.parse(readFileSync(join(folderOf(name), "package.json"), "utf8"));
}

function folderOf(name: string): string {
  return inRoot(`node_modules/${name}`);
}
