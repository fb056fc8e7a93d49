import { spawnSync } from "node:child_process";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import { appendBlock } from "./append-block.ts";
import { blobTransfer } from "./blob-transfer.ts";
import { coldStart } from "./cold-start.ts";
import { conditionalUpdate } from "./conditional-update.ts";
import { durableWrite } from "./durable-write.ts";
import { growth } from "./growth.ts";
import { Bench, type BenchOptions } from "./harness/bench.ts";
import { Progress } from "./harness/progress.ts";
import type { Question } from "./harness/question.ts";
import { machine, saveResult, versions, writeTable } from "./harness/report.ts";
import type { QuestionResult } from "./harness/results.ts";
import { indexTables } from "./index-tables.ts";
import { insight } from "./insight.ts";
import { nodeVersions } from "./node-versions.ts";
import { patterns } from "./patterns.ts";
import { pointQuery } from "./point-query.ts";
import { postgres } from "./postgres.ts";
import { queueMessage } from "./queue-message.ts";
import { rangeQuery } from "./range-query.ts";
import { scan } from "./scan.ts";
import { soak } from "./soak.ts";
import { testServer } from "./test-server.ts";
import { transaction } from "./transaction.ts";
import { workers } from "./workers.ts";

const QUESTIONS: readonly Question[] = [
  pointQuery,
  rangeQuery,
  scan,
  durableWrite,
  conditionalUpdate,
  transaction,
  queueMessage,
  blobTransfer,
  appendBlock,
  growth,
  workers,
  nodeVersions,
  insight,
  indexTables,
  postgres,
  coldStart,
  testServer,
  patterns,
  soak,
];

const USAGE = `npm run bench -- [question …] [--short] [--full] [--minutes N]

  --short      about a minute for each question; its figures do not enter RESULTS.md
  --full       also tables of 10,000,000 entities, and an index of 100,000
  --minutes N  length of the soak

Questions:
${QUESTIONS.map(({ asks, name }) => `  ${name.padEnd(19)} ${asks}`).join("\n")}
`;

const { positionals, values } = readArguments();
const names = QUESTIONS.map(({ name }) => name);
const unknown = positionals.find((name) => !names.includes(name));
if (unknown !== undefined) refuse(`No question "${unknown}".`);
if (values.minutes !== undefined && !(Number(values.minutes) > 0)) {
  refuse(`"${values.minutes}" is no number of minutes.`);
}
if (values.help) {
  process.stdout.write(USAGE);
  process.exit(0);
}
const options: BenchOptions = {
  short: values.short,
  full: values.full,
  minutes: values.minutes === undefined ? undefined : Number(values.minutes),
};

for (const signal of ["SIGINT", "SIGTERM"]) process.once(signal, () => process.exit(130));
buildServer();
const progress = new Progress();
let failed = false;
for (const question of QUESTIONS) {
  if (positionals.length > 0 && !positionals.includes(question.name)) continue;
  const result = await answer(question);
  saveResult(result);
  if (result.error !== undefined) failed = true;
}
if (!options.short) writeTable(names);
process.exit(failed ? 1 : 0);

async function answer(question: Question): Promise<QuestionResult> {
  progress.say(`── ${question.name}: ${question.asks}`);
  const bench = await Bench.open(options, progress, question.service);
  // Everything measured before an error is kept.
  let error: string | undefined;
  try {
    await question.run(bench);
  } catch (caught) {
    error = caught instanceof Error ? caught.message : String(caught);
    progress.say(`${question.name} ended early: ${error}`);
  } finally {
    await bench.close();
  }
  return {
    question: question.name,
    asks: question.asks,
    form: options.short ? "short" : "long",
    date: new Date().toISOString().slice(0, 10),
    machine: machine(),
    versions: versions(),
    cases: bench.results,
    ...(error === undefined ? {} : { error }),
  };
}

/** The compiled server is measured, as users run it. */
function buildServer(): void {
  const compiler = fileURLToPath(new URL("../node_modules/typescript/bin/tsc", import.meta.url));
  const root = fileURLToPath(new URL("..", import.meta.url));
  const { status } = spawnSync(process.execPath, [compiler, "--build", "cli"], {
    cwd: root,
    stdio: "inherit",
  });
  if (status !== 0) process.exit(status ?? 1);
}

function readArguments() {
  try {
    return parseArgs({
      allowPositionals: true,
      options: {
        short: { type: "boolean", default: false },
        full: { type: "boolean", default: false },
        minutes: { type: "string" },
        help: { type: "boolean", default: false },
      },
    });
  } catch (error) {
    return refuse(error instanceof Error ? error.message : String(error));
  }
}

function refuse(message: string): never {
  process.stderr.write(`${message}\n\n${USAGE}`);
  process.exit(2);
}
