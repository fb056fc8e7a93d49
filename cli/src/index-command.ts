import { terminalText } from "@rowhouse/server/insight/terminal-text";
import type { CheckedPiece } from "@rowhouse/server/table/indexes/index-check";
import type { ShownIndex } from "@rowhouse/server/table/indexes/index-json";
import type { Command } from "commander";
import { fetchSigned, messageIn } from "./explain-request.ts";
import type { TableRequest } from "./move/table-endpoint.ts";

interface At {
  readonly against: string;
}

interface Declared extends At {
  readonly table: string;
  readonly key: string;
  readonly rate?: string;
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
    .option("--rate <entities>", "entities a second at which it is built; default: 20000")
    .option("--fast", "build it as fast as possible")
    .action(async (name: string, { against, table, key, rate, fast }: Declared) => {
      const declaration = { table, key, ...(fast ? { rate: 0 } : rate && { rate: Number(rate) }) };
      print(describe(await ask<ShownIndex>(against, "PUT", name, "", declaration)));
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
      const { declaration, table } = await ask<{ declaration: string; table: string }>(
        against,
        "POST",
        name,
        "comp=detach",
      );
      print(`${name} is an ordinary table now, and no longer kept with ${table}.`);
      print(`The pattern library carries it on with this declaration:\n${declaration}`);
    });
}

function withServer(command: Command): Command {
  return command.requiredOption(
    "--against <url>",
    "the URL of an account whose key is in AZURITE_ACCOUNTS, or of the development account; required",
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

function describe({ name, table, key, state, progress }: ShownIndex): string {
  const done = progress ? `, ${progress.entities} entities done, ${progress.entries} entries` : "";
  return `${name}  of ${table}, by ${key}: ${state}${done}`;
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
