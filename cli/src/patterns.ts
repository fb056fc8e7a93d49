import type { Database } from "@rowhouse/patterns";
import { type Command, InvalidArgumentError, Option } from "commander";
import { type AdviseOptions, adviseIndex } from "./patterns/advise.ts";
import { type CheckOptions, check } from "./patterns/check.ts";
import {
  addConnectionOptions,
  type ConnectionOptions,
  connectionOf,
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
import { loadSchema, SCHEMA_FILES_TEXT } from "./patterns/schema.ts";

type Connected = ConnectionOptions & OutcomeOptions;
type OnSchema = Connected & { readonly schema?: string };

const SAMPLE = 10_000;

const SCHEMA = `the module that exports the definitions; default: ${SCHEMA_FILES_TEXT}`;
const INDEX = ["<index>", "an index, such as Employee.byTown"] as const;
const INDEXES = [
  "<entity>",
  "an entity, such as Employee, or one of its indexes, such as Employee.byTown",
] as const;
const QUEUE = ["<queue>", "the queue of a worker, without -poison"] as const;

/** `rowhouse patterns …`: commands for applications of the pattern library, in CI and in operation. */
export function addPatternsCommand(program: Command): void {
  const patterns = program
    .command("patterns")
    .description("check definitions of the pattern library, and manage their indexes and queues");
  addCheck(patterns);
  addExplain(patterns);
  addIndex(patterns.command("index").description("build, verify, repair and retire indexes"));
  addPoison(
    patterns
      .command("queue")
      .description("manage the queues of workers")
      .command("poison")
      .description("list, print and send back messages that failed too many times"),
  );
  addAdvise(patterns);
}

function addCheck(patterns: Command): void {
  patterns
    .command("check")
    .description(
      "lint definitions and compare them with the recorded ones; exits with 1 if a change is unsafe",
    )
    .argument("[schema]", SCHEMA)
    .option("--write", "record the definitions next to the module, for the next check")
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
    .argument("[schema]", SCHEMA)
    .addOption(
      new Option(
        "--fail-on <plan>",
        "exit with 1 if a declared query is such a scan, or a larger one",
      ).choices(SCANS),
    )
    .option("--sample <rows>", "rows of each table to sample when connected", count, SAMPLE);
  addConnectionOptions(explain).action(
    (file: string | undefined, options: ExplainOptions & Connected) =>
      perform(options, async (signal, progress) => {
        const schema = await loadSchema(file);
        const watching = { signal, progress };
        const isConnected = connectionOf(options) !== undefined;
        const database = isConnected
          ? await openDatabase(schema.library, options, watching)
          : undefined;
        return explainSchema(schema, options, database);
      }),
  );
}

function addIndex(index: Command): void {
  const add = (
    name: string,
    description: string,
    [argument, meaning]: typeof INDEX | typeof INDEXES,
    options: readonly Option[] = [],
  ) => {
    const command = index.command(name).description(description).argument(argument, meaning);
    for (const option of options) command.addOption(option);
    return addConnectionOptions(command.option("--schema <file>", SCHEMA));
  };
  const run = (options: OnSchema, work: (work: IndexWork) => Promise<Outcome>) =>
    perform(options, async (signal, progress) => {
      const schema = await loadSchema(options.schema);
      const database = await openDatabase(schema.library, options, { signal, progress });
      return work({ schema, database, signal, progress });
    });

  add(
    "status",
    "show the states of an entity's indexes; exits with 1 if one is redefined",
    INDEXES,
  ).action((name: string, options: OnSchema) => run(options, (work) => showStates(work, name)));
  add("build", "build the entries of existing entities, while writers are active", INDEX, [
    new Option("--rate <entities>", "maximum number of entities per second")
      .default(RATE)
      .argParser(count),
    new Option("--register", "for an unregistered index: hide it from readers until it is built"),
    new Option(
      "--shards <count>",
      "split the build into this many ranges, shared by all processes that run this command",
    ).argParser(count),
    new Option("--dry-run", "only estimate the work"),
  ]).action((name: string, options: OnSchema & BuildOptions) =>
    run(options, (work) => buildIndex(work, name, options)),
  );
  for (const [verb, description] of [
    ["verify", "compare entities and entries; exits with 1 if they do not match"],
    ["repair", "fix what verify finds; exits with 1 if something remains to be fixed"],
  ] as const) {
    add(verb, description, INDEXES, [
      new Option("--sample <percent>", "check a share of the rows, such as 5%").argParser(share),
      new Option(
        "--rate <rows>",
        "maximum number of entities and entries per second; default: no limit",
      ).argParser(count),
      new Option(
        "--resume <file>",
        "store progress in this file, and resume from it after an interruption",
      ),
    ]).action((name: string, options: OnSchema & ScrubOptions) =>
      run(options, (work) => scrubIndexes(work, name, verb, options)),
    );
  }
  add(
    "retire",
    "hide an index from readers, then from writers, then delete its entries",
    INDEX,
  ).action((name: string, options: OnSchema) => run(options, (work) => retireIndex(work, name)));
}

function addPoison(poison: Command): void {
  const add = (name: string, description: string) =>
    poison
      .command(name)
      .description(description)
      .argument(...QUEUE);
  const library = new Library(process.cwd());
  const run = (options: Connected, work: (database: Database) => Promise<Outcome>) =>
    perform(options, async (signal, progress) =>
      work(await openDatabase(library, options, { queues: true, signal, progress })),
    );

  addConnectionOptions(
    add("list", "list the first 32 poison messages; exits with 1 if there are any"),
  ).action((queue: string, options: Connected) =>
    run(options, (database) => listPoison(database, queue)),
  );
  addConnectionOptions(
    add(
      "show",
      "print poison messages in full; without an id, exits with 1 if there are any",
    ).argument("[id]", "the id of one of the first 32 messages; default: all of these"),
  ).action((queue: string, id: string | undefined, options: Connected) =>
    run(options, (database) => showPoison(database, queue, id)),
  );
  addConnectionOptions(
    add("redrive", "send poison messages back to their queue").option(
      "--max <messages>",
      "maximum number of messages to send back; default: all",
      count,
    ),
  ).action((queue: string, options: Connected & { readonly max?: number }) =>
    run(options, (database) => redrivePoison(library, database, queue, options.max)),
  );
}

function addAdvise(patterns: Command): void {
  const command = patterns
    .command("advise")
    .description("judge from the data whether an index pays; exits with 1 unless it should be kept")
    .argument(
      "<index>",
      "an index, such as Employee.byTown, or a field to index, such as Employee.town",
    )
    .option("--reads <number>", "lookups by the index, in some span of time", amount, 1)
    .option("--writes <number>", "writes of its fields, in the same span of time", amount, 1)
    .option("--sample <rows>", "maximum number of entities to sample", count, SAMPLE)
    .option("--total <rows>", "number of all entities, if the sample is only a part", count)
    .option(
      "--eventual",
      'the lookups read with consistency "eventual", so entries are not checked',
    )
    .option("--schema <file>", SCHEMA);
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
  throw new InvalidArgumentError("It must be a positive whole number.");
}

function amount(text: string): number {
  if (/^\d+(\.\d+)?$/.test(text)) return Number(text);
  throw new InvalidArgumentError("It must be a number, not below 0.");
}

/** Parses `5%` or `5` into 0.05. */
function share(text: string): number {
  const percent = Number(/^(\d+(?:\.\d+)?) ?%?$/.exec(text)?.[1]);
  if (percent > 0 && percent <= 100) return percent / 100;
  throw new InvalidArgumentError("It must be a share of at most 100%, such as 5%.");
}
