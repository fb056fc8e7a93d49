import { readdirSync } from "node:fs";
import { fileURLToPath } from "node:url";

/** Where the package's sources are. */
export const sources = fileURLToPath(new URL(".", import.meta.url));

/** Parts of the core that are not entry points of their own. */
const PARTS = new Set(["database.ts", "errors.ts", "repository.ts", "transaction.ts", "write.ts"]);

/** The files that users import as `@rowhouse/patterns/<name>`. */
export const ENTRY_POINTS: readonly string[] = readdirSync(sources)
  .filter((name) => /^(?!test-).*(?<!\.test)\.ts$/.test(name) && !PARTS.has(name))
  .sort();
