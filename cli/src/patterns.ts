import type { Database } from "@rowhouse/patterns";
import { type Command, InvalidArgumentError, Option } from "commander";
import { type AdviseOptions, adviseIndex } from "./patterns/advise.ts";
import { type CheckOptions, check } from "./patterns/check.ts";
import {
  addConnectionOptions,
  type ConnectionOptions,
  openDatabase,
} from "./patterns/connection.ts";
import { type ExplainOptions, explainSchema, SCANS } from "./patterns/explain.ts";
import {
  type BuildOptions,
  buildIndex,
  type IndexWork,
  RATE,
  retireIndex,
  type ScrubOptions,
  scrubIndexes,
  showStates,
} from "./patterns/index-work.ts";
import { Library } from "./patterns/library.ts";
import { type Outcome, type OutcomeOptions, perform } from "./patterns/outcome.ts";
import { listPoison, redrivePoison, showPoison } from "./patterns/poison.ts";
import { loadSchema, SCHEMA_FILES } from "./patterns/schema.ts";

type Connected = ConnectionOptions & OutcomeOptions;
type OnSchema = Connected & { readonly schema?: string };

const SAMPLE = 10_000;

/** `rowhouse patterns …`: commands for applications of the pattern library, in CI and in operation. */
export function addPatternsCommand(program: Command): void {
  const patterns = program
    .command("patterns")
    .description("check definitions of the pattern library and manage their indexes and queues");
  addCheck(patterns);
  addExplain(patterns);
  addIndex(patterns.command("index").description("build, verify, repair and retire indexes"));
  addPoison(
    patterns
      .command("queue")
      .description("manage the queues of workers")
      .command("poison")
      .description("messages that failed too many times"),
  );
  addAdvise(patterns);
}

function addCheck(patterns: Command): void {
  patterns
    .command("check")
    .description(
      "lint definitions and compare them with the recorded ones; exits with 1 if a change is unsafe",
    )
    .argument("[schema]", `the module that exports them; default: ${SCHEMA_FILES.join(" or ")}`)
    .option("--write", "record them next to the module, for the next check")
    .option("--strict", "treat warnings as errors")
    .option("--json", "print JSON")
    .action((file: string | undefined, options: CheckOptions & OutcomeOptions) =>
      perform(options, () => check(file, options)),
    );
}

function addExplain(patterns: Command): void {
  const explain = patterns
    .command("explain")
    .description("show the plan and cost of every query, and how the load spreads over partitions")
    .argument("[schema]", "the module that exports the definitions")
    .addOption(
      new Option("--fail-on <plan>", "exits with 1 if a declared query is one").choices(SCANS),
    )
    .option("--sample <rows>", "rows of each table to sample when connected", count, SAMPLE)
    .option("--json", "print JSON");
  addConnectionOptions(explain).action(
    (file: string | undefined, options: ExplainOptions & Connected) =>
      perform(options, async (signal, progress) => {
        const schema = await loadSchema(file);
        const isConnected = options.connection !== undefined;
        const watching = { signal, progress };
        const database = isConnected
          ? await openDatabase(schema.library, options, watching)
          : undefined;
        return explainSchema(schema, options, database);
      }),
  );
}

function addIndex(index: Command): void {
  const add = (usage: string, description: string) =>
    addConnectionOptions(index.command(usage).description(description))
      .option("--schema <file>", "the module that exports the definitions")
      .option("--json", "print JSON");
  const run = (options: OnSchema, work: (work: IndexWork) => Promise<Outcome>) =>
    perform(options, async (signal, progress) => {
      const schema = await loadSchema(options.schema);
      const database = await openDatabase(schema.library, options, { signal, progress });
      return work({ schema, database, signal, progress });
    });

  add("status <entity>", "show the states of an entity's indexes").action(
    (name: string, options: OnSchema) => run(options, (work) => showStates(work, name)),
  );
  add("build <index>", "build the entries of existing entities, while writers are active")
    .option("--rate <entities>", "entities per second", count, RATE)
    .option("--register", "for an unregistered index: hide it from readers until it is built")
    .option(
      "--shards <count>",
      "split the build into this many ranges, shared by all processes that run this command",
      count,
    )
    .option("--dry-run", "only estimate the work")
    .action((name: string, options: OnSchema & BuildOptions) =>
      run(options, (work) => buildIndex(work, name, options)),
    );
  for (const verb of ["verify", "repair"] as const) {
    const what = verb === "verify" ? "compare entities and entries" : "fix what verify finds";
    add(`${verb} <entity>`, `${what}; exits with 1 if something remains`)
      .option("--sample <percent>", "check a share of the rows, such as 5%", share)
      .option("--rate <rows>", "entities and entries per second; default: no limit", count)
      .option(
        "--resume <file>",
        "store progress in this file and resume from it after an interruption",
      )
      .action((name: string, options: OnSchema & ScrubOptions) =>
        run(options, (work) => scrubIndexes(work, name, verb, options)),
      );
  }
  add(
    "retire <index>",
    "hide an index from readers, then from writers, then delete its entries",
  ).action((name: string, options: OnSchema) => run(options, (work) => retireIndex(work, name)));
}

function addPoison(poison: Command): void {
  const add = (usage: string, description: string) =>
    addConnectionOptions(poison.command(usage).description(description)).option(
      "--json",
      "print JSON",
    );
  const library = new Library(process.cwd());
  const run = (options: Connected, work: (database: Database) => Promise<Outcome>) =>
    perform(options, async (signal, progress) =>
      work(await openDatabase(library, options, { queues: true, signal, progress })),
    );

  add("list <queue>", "list the first 32 poison messages; exits with 1 if there are any").action(
    (queue: string, options: Connected) => run(options, (database) => listPoison(database, queue)),
  );
  add("show <queue> [id]", "print the first 32 poison messages, or one of them, in full").action(
    (queue: string, id: string | undefined, options: Connected) =>
      run(options, (database) => showPoison(database, queue, id)),
  );
  add("redrive <queue>", "send poison messages back to their queue")
    .option("--max <messages>", "at most this many; default: all", count)
    .action((queue: string, options: Connected & { readonly max?: number }) =>
      run(options, (database) => redrivePoison(library, database, queue, options.max)),
    );
}

function addAdvise(patterns: Command): void {
  const command = patterns
    .command("advise")
    .description("judge from the data whether an index pays; exits with 1 unless it should be kept")
    .argument(
      "<index>",
      "an index such as Employee.byTown, or a field such as Employee.town to index by",
    )
    .option("--schema <file>", "the module that exports the definitions")
    .option("--reads <number>", "lookups by the index, in some time span", amount, 1)
    .option("--writes <number>", "writes of its fields, in the same time span", amount, 1)
    .option("--sample <rows>", "entities to sample", count, SAMPLE)
    .option("--total <rows>", "entities in total, if the sample is not all of them", count)
    .option("--json", "print JSON");
  addConnectionOptions(command).action((name: string, options: OnSchema & AdviseOptions) =>
    perform(options, async (signal, progress) => {
      const schema = await loadSchema(options.schema);
      const database = await openDatabase(schema.library, options, { signal, progress });
      return adviseIndex(schema, database, name, options);
    }),
  );
}

function count(text: string): number {
  if (/^[1-9]\d{0,9}$/.test(text)) return Number(text);
  throw new InvalidArgumentError(`"${text}" is not a positive whole number`);
}

function amount(text: string): number {
  if (/^\d+(\.\d+)?$/.test(text)) return Number(text);
  throw new InvalidArgumentError(`"${text}" is not a number.`);
}

/** Parses `5%` or `5` into 0.05. */
function share(text: string): number {
  const percent = Number(/^(\d+(?:\.\d+)?) ?%?$/.exec(text)?.[1]);
  if (percent > 0 && percent <= 100) return percent / 100;
  throw new InvalidArgumentError(`"${text}" is not a share such as 5%.`);
}
