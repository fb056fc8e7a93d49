import { fileURLToPath } from "node:url";

const SOURCES = ["--conditions=rowhouse-source", "--import", "tsx"];

/** Node's arguments that run a program beside this file: compiled if this is, otherwise its source. */
export function programArguments(name: string): { readonly node: string[]; readonly file: string } {
  const isSource = import.meta.url.endsWith(".ts");
  const file = fileURLToPath(new URL(`${name}.${isSource ? "ts" : "js"}`, import.meta.url));
  return { node: isSource ? SOURCES : [], file };
}
