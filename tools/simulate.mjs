// Long random histories: npm run simulate -- [--seed=42] [--times=20] [name of a test file]
import { spawnSync } from "node:child_process";
import { readdirSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";

const { values, positionals } = parseArgs({
  // So many times as long as in `npm test`: together about three minutes.
  options: { seed: { type: "string" }, times: { type: "string", default: "20" } },
  allowPositionals: true,
});
const seed = values.seed ?? String(Date.now() % 1_000_000);
console.log(`npm run simulate -- --seed=${seed} --times=${values.times} repeats this.`);

const root = join(dirname(fileURLToPath(import.meta.url)), "..");
const folder = "tests/simulation";
const all = readdirSync(join(root, folder)).filter((name) => name.endsWith(".test.ts"));
const files = positionals.length > 0 ? positionals.map((name) => `${name}.test.ts`) : all;
for (const [index, file] of files.entries()) {
  console.log(`\n${file}, ${index + 1} of ${files.length}`);
  // One by one and not under the test runner, which holds back what it knows until a file ends.
  const node = ["--conditions=rowhouse-source", "--import", "tsx", "--test-reporter=spec"];
  const { status } = spawnSync(process.execPath, [...node, join(folder, file)], {
    cwd: root,
    stdio: "inherit",
    env: { ...process.env, SIMULATION_SEED: seed, SIMULATION_TIMES: values.times },
  });
  if (status !== 0) process.exitCode = 1;
}
