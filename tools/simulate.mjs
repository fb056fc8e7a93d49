// Long random histories: npm run simulate -- [--seed=42] [--steps=20000] [name of a test file]
import { spawn } from "node:child_process";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";

const { values, positionals } = parseArgs({
  options: { seed: { type: "string" }, steps: { type: "string", default: "20000" } },
  allowPositionals: true,
});
const seed = values.seed ?? String(Date.now() % 1_000_000);
console.log(`npm run simulate -- --seed=${seed} --steps=${values.steps} repeats this.`);

const here = dirname(fileURLToPath(import.meta.url));
const files = positionals.map((name) => `tests/simulation/${name}.test.ts`);
const runner = spawn(
  process.execPath,
  [join(here, "test.mjs"), ...(files.length > 0 ? files : ["tests/simulation"])],
  {
    stdio: "inherit",
    env: { ...process.env, SIMULATION_SEED: seed, SIMULATION_STEPS: values.steps },
  },
);
runner.on("exit", (code) => process.exit(code ?? 1));
