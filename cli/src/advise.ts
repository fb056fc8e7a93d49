import { closeSync, existsSync, openSync, readSync, statSync } from "node:fs";
import { StringDecoder } from "node:string_decoder";
import type { Engine } from "@rowhouse/server/engine/engine";
import { scanToEnd } from "@rowhouse/server/engine/scan-to-end";
import { advise } from "@rowhouse/server/insight/advice/advise";
import { joinRecordings } from "@rowhouse/server/insight/advice/join-recordings";
import { adviceSarif, printAdvice } from "@rowhouse/server/insight/advice/print-advice";
import type { EntitySample, TableData } from "@rowhouse/server/insight/advice/rule";
import { RECORDING_BYTES_MAX } from "@rowhouse/server/insight/recording";
import { after } from "@rowhouse/server/query/plan";
import { RecordView } from "@rowhouse/server/table/record-view";
import { positionKey } from "@rowhouse/server/table/table-keys";
import { type Command, Option } from "commander";
import { CLEAR_LINE } from "./clear-line.ts";
import { listStoredTables, openDataFolder } from "./inspect-data.ts";
import { notEmpty } from "./not-empty.ts";
import { recordingFiles } from "./serve/recording-files.ts";
import { packageVersion } from "./version.ts";

interface AdviseOptions {
  readonly location?: string;
  readonly format: "text" | "json" | "sarif";
}

export function addAdviseCommand(program: Command): void {
  program
    .command("advise")
    .description(
      "check recorded traffic against the performance checklist; exits with 1 if it finds something",
    )
    .argument("<recording>", "the file that serve --record wrote", notEmpty)
    .option(
      "-l, --location <folder>",
      "the data folder that was served, to examine entities as well",
      notEmpty,
    )
    .addOption(
      new Option("--format <format>", "output format")
        .choices(["text", "json", "sarif"])
        .default("text"),
    )
    .action(async (recording: string, { location, format }: AdviseOptions) => {
      const lines = recordedLines(recording);
      const advice = advise(lines, await dataOf(location));
      process.stdout.write(
        format === "text"
          ? printAdvice(advice)
          : `${JSON.stringify(format === "json" ? advice : adviceSarif(advice, packageVersion()), null, 2)}\n`,
      );
      process.exitCode = advice.findings.length > 0 ? 1 : 0;
    });
}

/** @throws Error for a folder, an empty file, and a file larger than a recording can be. */
function checkLength(recording: string): void {
  const stats = statSync(recording);
  if (stats.isDirectory()) throw new Error(`${recording} is a folder; name the recording file.`);
  // A pipe has no length.
  if (stats.isFile() && stats.size === 0) {
    throw new Error(
      `${recording} is empty: the server writes traffic every 64 KiB and at shutdown. Shut it down and try again; if it was killed, record again.`,
    );
  }
  if (stats.size > 2 * RECORDING_BYTES_MAX) {
    const limit = `${RECORDING_BYTES_MAX / 2 ** 20} MiB`;
    throw new Error(`${recording} is larger than the ${limit} that serve --record writes.`);
  }
}

/**
 * The lines of a recording, of all the processes that wrote it. Shows progress on a terminal.
 * @throws Error at once if it is missing, empty, a folder, or too large
 */
export function recordedLines(recording: string): Iterable<string> {
  if (!existsSync(recording)) {
    throw new Error(`${recording} does not exist; serve --record creates it.`);
  }
  for (const file of recordingFiles(recording)) checkLength(file);
  return joinRecordings(recordingFiles(recording).map((file) => linesOf(file, process.stderr)));
}

const CHUNK_BYTES = 1 << 20;

/** The lines of a file, read 1 MiB at a time. Shows progress on a terminal. */
export function* linesOf(
  file: string,
  terminal: NodeJS.WriteStream,
): Generator<string, void, undefined> {
  const descriptor = openSync(file, "r");
  const { size } = statSync(file);
  const chunk = Buffer.alloc(CHUNK_BYTES);
  const decoder = new StringDecoder("utf8");
  let read = 0;
  let rest = "";
  try {
    for (let count = readSync(descriptor, chunk); count > 0; count = readSync(descriptor, chunk)) {
      const lines = (rest + decoder.write(chunk.subarray(0, count))).split("\n");
      rest = lines.pop() ?? "";
      yield* lines;
      read += count;
      if (terminal.isTTY) terminal.write(`\r${Math.floor((100 * read) / size)} % checked`);
    }
    yield rest;
  } finally {
    if (terminal.isTTY) terminal.write(CLEAR_LINE);
    closeSync(descriptor);
  }
}

async function dataOf(location: string | undefined): Promise<Map<string, TableData>> {
  if (location === undefined) return new Map();
  const engine = await openDataFolder(location);
  try {
    return await sampleTables(engine);
  } finally {
    await engine.close();
  }
}

/** The maximum number of entities read from each table, and of those sampled. */
const VISITED_MAX = 10_000;
const SAMPLES_MAX = 200;

/** Evenly spaced samples of the first entities of each table. */
export async function sampleTables(
  engine: Engine,
  visitedMax = VISITED_MAX,
): Promise<Map<string, TableData>> {
  const data = new Map<string, TableData>();
  const view = new RecordView();
  for (const { account, table, range, prefix } of await listStoredTables(engine)) {
    let samples: EntitySample[] = [];
    let entities = 0;
    let stride = 1;
    let partitionKey: string | undefined;
    let isOnly = true;
    await scanToEnd(engine, range, ({ value }) => {
      view.reset(value);
      partitionKey ??= view.partitionKey;
      isOnly &&= view.partitionKey === partitionKey;
      if (entities % stride === 0) {
        samples.push(sampleOf(view, value.length));
        if (samples.length > SAMPLES_MAX) {
          samples = samples.filter((_, i) => i % 2 === 0);
          stride *= 2;
        }
      }
      entities++;
      return entities < visitedMax;
    });
    if (partitionKey !== undefined && isOnly && entities === visitedMax) {
      const behind = { partitionKey: after(partitionKey), rowKey: "" };
      const start = positionKey(prefix, behind, engine.keyBytesMax);
      isOnly = (await scanToEnd(engine, { start, end: range.end }, () => false)) === "complete";
    }
    const onlyPartition = isOnly ? partitionKey : undefined;
    data.set(`${account}/${table}`, { entities, samples, onlyPartition });
  }
  return data;
}

const NUMBERS: ReadonlySet<string> = new Set(["Edm.Int32", "Edm.Int64", "Edm.Double"]);

function sampleOf(view: RecordView, bytes: number): EntitySample {
  let numeric = view.count > 0;
  for (let i = 0; i < view.count; i++) numeric &&= NUMBERS.has(view.typeOf(i));
  const { partitionKey, rowKey, count } = view;
  return { partitionKey, rowKey, bytes, properties: count, numeric };
}
