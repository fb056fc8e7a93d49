// Long random histories: npm run simulate -- [--seed=42] [--times=20] [name of a test file]
// or --cluster [--seed=42] [--minutes=60]
import { spawnSync } from "node:child_process";
import { readdirSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";

const root = join(dirname(fileURLToPath(import.meta.url)), "..");
const folder = "tests/simulation";
const all = readdirSync(join(root, folder)).filter((name) => name.endsWith(".test.ts"));
const { values, positionals } = readArguments();
if (values.cluster) simulateCluster();
const files = positionals.length > 0 ? positionals.map((name) => `${name}.test.ts`) : all;
const unknown = files.find((file) => !all.includes(file));
if (unknown) fail(`There is no ${folder}/${unknown}.`);
const seed = values.seed ?? String(Date.now() % 1_000_000);
console.log(`npm run simulate -- --seed=${seed} --times=${values.times} repeats this.`);

for (const [index, file] of files.entries()) {
  console.log(`\n${file}, ${index + 1} of ${files.length}`);
  // One by one and without the test runner, which holds back a file's output until it ends.
  const node = ["--conditions=rowhouse-source", "--import", "tsx", "--test-reporter=spec"];
  const { status } = spawnSync(process.execPath, [...node, join(folder, file)], {
    cwd: root,
    stdio: "inherit",
    env: { ...process.env, SIMULATION_SEED: seed, SIMULATION_TIMES: values.times },
  });
  if (status !== 0) process.exitCode = 1;
}

function simulateCluster() {
  const own = values.seed ?? String(Date.now() % 1_000_000);
  console.log(`npm run simulate -- --cluster --seed=${own} --minutes=${values.minutes}`);
  const node = ["--conditions=rowhouse-source", "--import", "tsx"];
  const script = join(root, "tests/postgres/cluster-simulation.ts");
  const { status } = spawnSync(process.execPath, [...node, script, own, values.minutes], {
    cwd: root,
    stdio: "inherit",
  });
  process.exit(status ?? 1);
}

function readArguments() {
  try {
    return parseArgs({
      // This many times as long as in `npm test`: together about three minutes.
      options: {
        seed: { type: "string" },
        times: { type: "string", default: "20" },
        // Instead: front ends over a real cluster whose nodes are killed, for so long.
        cluster: { type: "boolean" },
        minutes: { type: "string", default: "60" },
      },
      allowPositionals: true,
    });
  } catch (error) {
    return fail(error.message);
  }
}

function fail(message) {
  const names = all.map((file) => file.replace(".test.ts", "")).join(", ");
  console.error(`${message}\n\nnpm run simulate -- [--seed=42] [--times=20] [NAME …], of ${names}`);
  process.exit(2);
}
