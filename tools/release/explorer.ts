import { run } from "./run.ts";

/** Builds the explorer's page, which bundles include. @returns the names of the packages of others that are in it */
export async function buildExplorer(): Promise<readonly string[]> {
  run(process.execPath, ["explorer/build.mjs"]);
  const { packages } = await import("@rowhouse/explorer/assets");
  return packages;
}
