import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";

/** Where the package's sources are. */
export const sources = fileURLToPath(new URL(".", import.meta.url));

const { exports } = JSON.parse(readFileSync(new URL("../package.json", import.meta.url), "utf8"));

/** The sources of what users import: as `@rowhouse/patterns`, and as `@rowhouse/patterns/<name>`. */
export const ENTRY_POINTS: readonly string[] = Object.values<{ "rowhouse-source"?: string }>(
  exports,
)
  .flatMap(({ "rowhouse-source": source }) => source?.replace("./src/", "") ?? [])
  .sort();
