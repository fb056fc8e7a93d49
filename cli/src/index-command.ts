import {
  type IndexSuggestion,
  type IndexUses,
  suggestIndexes,
  usesOf,
} from "@rowhouse/server/insight/advice/suggest-indexes";
import { terminalText } from "@rowhouse/server/insight/terminal-text";
import type { DetachedIndex } from "@rowhouse/server/table/indexes/detach-index";
import type { CheckedPiece } from "@rowhouse/server/table/indexes/index-check";
import type { DryRun } from "@rowhouse/server/table/indexes/index-dry-run";
import type { ShownIndex } from "@rowhouse/server/table/indexes/index-json";
import { type Command, InvalidArgumentError, Option } from "commander";
import { recordedLines } from "./advise.ts";
import { fetchSigned, messageIn } from "./explain-request.ts";
import type { TableRequest } from "./move/table-endpoint.ts";

interface At {
  readonly against: string;
}

interface Declared extends At {
  readonly table: string;
  readonly key: string;
  readonly rate?: number;
  readonly fast?: true;
}

/** `rowhouse index …`: declares and tends indexes of a running server, over whatever engine. */
export function addIndexCommand(program: Command): void {
  const index = program
    .command("index")
    .description("declare and tend the index tables that a running server keeps");

  withServer(index.command("create <name>"))
    .description("keep an index of a table; repeating it changes nothing")
    .requiredOption("-t, --table <name>", "the table to index; required")
    .requiredOption(
      "-k, --key <parts>",
      "what it is sorted by: LastName,FirstName, or Day:DateTime desc, or PartitionKey,LastName for an order inside each partition; required",
    )
    .addOption(
      new Option("--rate <entities>", "entities a second at which it is built; default: 20000")
        .argParser(parseRate)
        .conflicts("fast"),
    )
    .option("--fast", "build it as fast as possible")
    .action(async (name: string, { against, table, key, rate, fast }: Declared) => {
      const declaration = { table, key, rate: fast ? 0 : rate };
      print(describe(await ask<ShownIndex>(against, "PUT", name, "", declaration)));
    });

  withServer(index.command("dry-run"))
    .description("show what an index would be: values, skew, bytes, build time; changes nothing")
    .requiredOption("-t, --table <name>", "the table to index; required")
    .requiredOption("-k, --key <parts>", "as for create; required")
    .option("--record <file>", "a file of serve --record: count the queries that would use it")
    .action(async ({ against, table, key, record }: Declared & { readonly record?: string }) => {
      const lines = record === undefined ? undefined : recordedLines(record);
      const body = { table, key };
      const result = await ask<DryRun>(against, "POST", "", "comp=dryrun", body);
      const uses = lines && usesOf(lines, table, result.key);
      print(describeDryRun(table, result));
      if (uses) print(describeUses(uses));
    });

  index
    .command("suggest <recording>")
    .description("rank the indexes that recorded queries would use, by what they save and cost")
    .action((recording: string) => {
      const suggestions = suggestIndexes(recordedLines(recording));
      print(
        suggestions.length === 0
          ? "No recorded query would use an index."
          : terminalText(suggestions.map(describeSuggestion)).trimEnd(),
      );
    });

  withServer(index.command("list"))
    .description("list the indexes of the account")
    .action(async ({ against }: At) => {
      const { indexes } = await ask<{ indexes: readonly ShownIndex[] }>(against, "GET", "");
      print(indexes.length === 0 ? "There are no indexes." : indexes.map(describe).join("\n"));
    });

  withServer(index.command("show <name>"))
    .description("show the key and the state of an index, and how far its building has come")
    .action(async (name: string, { against }: At) => {
      print(describe(await ask<ShownIndex>(against, "GET", name)));
    });

  withServer(index.command("verify <name>"))
    .description(
      "compare an index with its table, in both directions; exits with 1 if anything is wrong",
    )
    .action(async (name: string, { against }: At) => {
      if (await check(against, name, "verify")) process.exitCode = 1;
    });

  withServer(index.command("repair <name>"))
    .description("mend whatever verify would find")
    .action(async (name: string, { against }: At) => {
      await check(against, name, "repair");
    });

  withServer(index.command("drop <name>"))
    .description("stop keeping an index and remove its table")
    .action(async (name: string, { against }: At) => {
      await ask(against, "DELETE", name);
      print(`${name} is dropped.`);
    });

  withServer(index.command("detach <name>"))
    .description(
      "stop keeping an index, leave its table as an ordinary one, and print how the pattern library carries it on",
    )
    .action(async (name: string, { against }: At) => {
      const { declaration, problem, table } = await ask<DetachedIndex>(
        against,
        "POST",
        name,
        "comp=detach",
      );
      print(`${name} is an ordinary table now, and no longer kept with ${table}.`);
      if (declaration === undefined) {
        print(`The pattern library cannot carry it on: ${problem}.`);
        return;
      }
      print("The pattern library carries it on with this declaration, in which partitionKey and");
      print("rowKey stand for the segments of the entity's own keys, as its declaration has them:");
      print(declaration);
    });
}

function parseRate(text: string): number {
  if (/^[1-9]\d{0,8}$/.test(text)) return Number(text);
  throw new InvalidArgumentError("It must be a whole number of entities, from 1 on.");
}

function withServer(command: Command): Command {
  return command.requiredOption(
    "--against <endpoint>",
    "a connection string with the key of an account, or the URL of one whose key is in AZURITE_ACCOUNTS, or of the development account; required",
  );
}

/** Piece by piece, so that no request takes long. Returns whether anything was wrong. */
async function check(against: string, name: string, comp: string): Promise<boolean> {
  const total = { entities: 0, entries: 0, missing: 0, altered: 0, surplus: 0 };
  let from: CheckedPiece["next"];
  do {
    const piece: CheckedPiece = await ask(against, "POST", name, `comp=${comp}`, from);
    total.entities += piece.entities;
    total.entries += piece.entries;
    for (const finding of ["missing", "altered", "surplus"] as const) {
      total[finding] += piece.findings[finding];
    }
    for (const { finding, entity } of piece.examples) {
      print(terminalText([`${finding}  ${entity.partitionKey}/${entity.rowKey}`]).trimEnd());
    }
    from = piece.next ?? undefined;
  } while (from);
  const { entities, entries, missing, altered, surplus } = total;
  const wrong = missing + altered + surplus;
  const found = `${missing} missing, ${altered} altered, ${surplus} surplus`;
  print(`${name}: ${entities} entities and ${entries} entries compared; ${found}.`);
  if (wrong > 0)
    print(comp === "repair" ? "All of it is mended." : "Mend it with: rowhouse index repair");
  return wrong > 0;
}

function describeDryRun(table: string, result: DryRun): string {
  const { key, entities, isWhole, entries, otherTypes, values, commonest } = result;
  const share = commonest ? Math.round((100 * commonest.entries) / entries) : 0;
  const lines = [
    `${table} by ${key}, from ${isWhole ? "all" : "the first"} ${entities} entities:`,
    `  ${entries} would have an entry of about ${result.entryBytes} bytes; ${otherTypes} hold a value of another type`,
    `  ${values} different values, ${(entries / Math.max(1, values)).toFixed(1)} entries each`,
  ];
  if (commonest) lines.push(`  the commonest, ${commonest.value}, is ${share} % of them`);
  lines.push(
    `  built in about ${result.buildSeconds} s at the usual rate; each write that changes it costs up to 21 µs more`,
  );
  if (share > 40) {
    lines.push("  skewed: for the commonest value a scan is as good");
  } else if (values === 1) lines.push("  unselective: all entries have the same value");
  return terminalText(lines).trimEnd();
}

function describeUses({ shapes, used }: IndexUses): string {
  return `  ${used} of ${shapes} recorded shapes of queries of this table would use it`;
}

function describeSuggestion(suggestion: IndexSuggestion): string {
  const { table, key, queries, read, returned, writes, savedMicros, costMicros } = suggestion;
  const verdict = suggestion.refusal ? `no: ${suggestion.refusal}` : "yes";
  return `${table} --key ${key}  ${verdict}; ${queries} queries read ${read} to return ${returned} (would save ${savedMicros} µs), ${writes} writes (would cost ${costMicros} µs at most)`;
}

function describe({ name, table, key, state, progress }: ShownIndex): string {
  return `${name}  of ${table}, by ${key}: ${state}${progress ? describeProgress(progress) : ""}`;
}

function describeProgress(progress: NonNullable<ShownIndex["progress"]>): string {
  const { entities, entries, total, secondsLeft } = progress;
  const left = total === undefined ? "" : ` of about ${total}, ${secondsLeft} s left`;
  return `, ${entities} entities done${left}, ${entries} entries`;
}

/** @throws Error with the message of the server's refusal */
async function ask<T>(
  against: string,
  method: TableRequest["method"],
  name: string,
  query = "",
  body?: unknown,
): Promise<T> {
  const path = `/_rowhouse/indexes${name === "" ? "" : `/${encodeURIComponent(name)}`}`;
  const answer = await fetchSigned(against, path, query, process.env, {
    method,
    ...(body !== undefined && { body: JSON.stringify(body) }),
  });
  if (answer.status >= 300) throw new Error(messageIn(answer.body));
  return (answer.body === "" ? undefined : JSON.parse(answer.body)) as T;
}

function print(line: string): void {
  process.stdout.write(`${line}\n`);
}
