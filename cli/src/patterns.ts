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

/** `rowhouse patterns …`: what those who use the pattern library run in CI and in operation. */
export function addPatternsCommand(program: Command): void {
  const patterns = program
    .command("patterns")
    .description("check definitions of the pattern library, look after their indexes and queues");
  addCheck(patterns);
  addExplain(patterns);
  addIndex(patterns.command("index").description("build, verify, repair and retire indexes"));
  addPoison(
    patterns
      .command("queue")
      .description("look after the queues of workers")
      .command("poison")
      .description("messages that failed too often"),
  );
  addAdvise(patterns);
}

function addCheck(patterns: Command): void {
  patterns
    .command("check")
    .description("lint definitions and compare them with those recorded; exit code 1 when unsafe")
    .argument("[schema]", `the module that exports them; ${SCHEMA_FILES.join(" or ")} otherwise`)
    .option("--write", "record them beside the module, for the next check")
    .option("--strict", "let warnings count as well")
    .option("--json", "print JSON")
    .action((file: string | undefined, options: CheckOptions & OutcomeOptions) =>
      perform(options, () => check(file, options)),
    );
}

function addExplain(patterns: Command): void {
  const explain = patterns
    .command("explain")
    .description("tell plan and cost of every query, and how partitions carry the load")
    .argument("[schema]", "the module that exports the definitions")
    .addOption(
      new Option("--fail-on <plan>", "exit code 1 when a declared query is one").choices(SCANS),
    )
    .option("--sample <rows>", "rows of each table to look at when connected", count, SAMPLE)
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

  add("status <entity>", "tell the states of an entity's indexes").action(
    (name: string, options: OnSchema) => run(options, (work) => showStates(work, name)),
  );
  add("build <index>", "make the entries of the entities that are there, beside writers at work")
    .option("--rate <entities>", "entities a second", count, RATE)
    .option("--register", "an index nobody registered: take it from readers until it is built")
    .option("--shards <count>", "in so many ranges, shared with all who run this command", count)
    .option("--dry-run", "tell what it would take")
    .action((name: string, options: OnSchema & BuildOptions) =>
      run(options, (work) => buildIndex(work, name, options)),
    );
  for (const verb of ["verify", "repair"] as const) {
    const what = verb === "verify" ? "compare entities and entries" : "mend what verify finds";
    add(`${verb} <entity>`, `${what}; exit code 1 when something remains`)
      .option("--sample <percent>", "a share of the rows, such as 5%", share)
      .option("--rate <rows>", "entities and entries a second; no limit otherwise", count)
      .option(
        "--resume <file>",
        "keep how far it got there, and go on from it after an interruption",
      )
      .action((name: string, options: OnSchema & ScrubOptions) =>
        run(options, (work) => scrubIndexes(work, name, verb, options)),
      );
  }
  add("retire <index>", "take an index from readers, then writers, and delete its entries").action(
    (name: string, options: OnSchema) => run(options, (work) => retireIndex(work, name)),
  );
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

  add("list <queue>", "the first 32 poison messages; exit code 1 when there are any").action(
    (queue: string, options: Connected) => run(options, (database) => listPoison(database, queue)),
  );
  add("show <queue> [id]", "the first 32 poison messages, or one, as they are").action(
    (queue: string, id: string | undefined, options: Connected) =>
      run(options, (database) => showPoison(database, queue, id)),
  );
  add("redrive <queue>", "send poison messages back to work")
    .option("--max <messages>", "at most so many; all otherwise", count)
    .action((queue: string, options: Connected & { readonly max?: number }) =>
      run(options, (database) => redrivePoison(library, database, queue, options.max)),
    );
}

function addAdvise(patterns: Command): void {
  const command = patterns
    .command("advise")
    .description("tell from the data whether an index pays; exit code 1 unless it is to keep")
    .argument("<index>", "Employee.byTown, or Employee.town for an index by that field")
    .option("--schema <file>", "the module that exports the definitions")
    .option("--reads <number>", "lookups by it, in any span of time", amount, 1)
    .option("--writes <number>", "writes of its fields, in the same span", amount, 1)
    .option("--sample <rows>", "entities to look at", count, SAMPLE)
    .option("--total <rows>", "entities there are, when the sample is not all of them", count)
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
  throw new InvalidArgumentError(`"${text}" is not 1, 2, 3, …`);
}

function amount(text: string): number {
  if (/^\d+(\.\d+)?$/.test(text)) return Number(text);
  throw new InvalidArgumentError(`"${text}" is not a number.`);
}

/** `5%`, or `5`. */
function share(text: string): number {
  const percent = Number(/^(\d+(?:\.\d+)?) ?%?$/.exec(text)?.[1]);
  if (percent > 0 && percent <= 100) return percent / 100;
  throw new InvalidArgumentError(`"${text}" is not a share, such as 5%.`);
}
