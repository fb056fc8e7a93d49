import { spawnSync } from "node:child_process";
import { readdirSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

/*
 * Tries what a new user does, from an empty folder, in full:
 *
 *     npm run try                   everything
 *     npm run try -- install test   these parts
 *
 * The same files run in `npm test`, without what needs more than npm, or more than a minute.
 */
const root = fileURLToPath(new URL("..", import.meta.url));
const folder = join(root, "tests/try");
const names = readdirSync(folder)
  .filter((name) => name.endsWith(".test.ts"))
  .map((name) => name.replace(".test.ts", ""));
const wanted = process.argv.length > 2 ? process.argv.slice(2) : names;
const unknown = wanted.find((name) => !names.includes(name));
if (unknown) {
  console.error(`There is no "${unknown}" to try; ${names.join(", ")} are known.`);
  process.exit(2);
}
const { status } = spawnSync(
  process.execPath,
  [
    ...["--conditions=rowhouse-source", "--import", "tsx"],
    ...["--test", "--test-reporter=spec", "--test-concurrency=1"],
    ...wanted.map((name) => join(folder, `${name}.test.ts`)),
  ],
  { cwd: root, stdio: "inherit", env: { ...process.env, TRY: "long" } },
);
process.exitCode = status ?? 1;
