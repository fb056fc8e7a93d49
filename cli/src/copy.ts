import type { Command } from "commander";
import { Checkpoint } from "./move/checkpoint.ts";
import { compareTables } from "./move/compare-tables.ts";
import { type CopyState, copyTable, Pace } from "./move/copy-table.ts";
import {
  addTransferOptions,
  collect,
  connect,
  countOption,
  ENDPOINT_HELP,
  interruptible,
  type TransferOptions,
} from "./move/options.ts";
import { readTablesToMove } from "./move/read-table.ts";
import { Rejects } from "./move/rejects.ts";
import { TransferProgress } from "./move/transfer-progress.ts";
import { notEmpty } from "./not-empty.ts";

interface CopyOptions extends TransferOptions {
  readonly from: string;
  readonly to: string;
  readonly table?: readonly string[];
  readonly where?: string;
  readonly parallel: number;
  readonly verify?: true;
  readonly rejects?: string;
}

export function addCopyCommand(program: Command): void {
  const command = program
    .command("copy")
    .description("copy tables between any two endpoints, the cloud's included, every type exact")
    .requiredOption("--from <endpoint>", ENDPOINT_HELP, notEmpty)
    .requiredOption("--to <endpoint>", "the same for the destination", notEmpty)
    .option("-t, --table <name>", "only this table; may be repeated", collect)
    .option("--where <filter>", "only the entities that a $filter selects", notEmpty)
    .option("--parallel <n>", "how many key ranges are copied at once", countOption(64), 4);
  addTransferOptions(command)
    .option("--verify", "afterwards compare both sides, entity by entity")
    .option("--rejects <file>", "append what the destination refused, as JSON lines", notEmpty)
    .action(async (options: CopyOptions) => {
      process.exitCode = (await copy(options)) ? 0 : 1;
    });
}

/** Returns whether every entity was taken and, with `--verify`, is the same on both sides. */
async function copy(options: CopyOptions): Promise<boolean> {
  const signal = interruptible();
  const from = await connect(options.from, signal);
  const to = await connect(options.to, signal);
  if (from.endpoint.url === to.endpoint.url)
    throw new Error("--from and --to are the same account.");
  const { where, parallel, dryRun = false, verify } = options;
  const only = where === undefined ? "" : ` where ${where}`;
  const checkpoint = new Checkpoint<CopyState>(
    dryRun ? undefined : options.state,
    `copy from ${from.endpoint.url} to ${to.endpoint.url}${only}`,
  );
  const state = checkpoint.read() ?? {};
  const pace = new Pace(options.rate ?? Number.POSITIVE_INFINITY);
  const say = (line: string) => process.stdout.write(`${line}\n`);
  const names = options.table ?? (await readTablesToMove(from, say));
  const rejects = new Rejects(options.rejects, say);
  let differences = 0;
  for (const table of names) {
    const progress = new TransferProgress(table);
    const entities = await copyTable(
      {
        from,
        to,
        table,
        where,
        parallel,
        pace,
        progress,
        dryRun,
        onRefused: ({ change, reason }) => {
          const where = `${table} ${JSON.stringify([change.partitionKey, change.rowKey])}`;
          rejects.add({ where, reason, found: Buffer.from(change.entity ?? []).toString("utf8") });
        },
      },
      state,
      checkpoint,
    ).finally(() => progress.end());
    say(`${table}: ${entities} entities ${dryRun ? "would be copied" : "copied"}`);
  }
  for (const table of verify && !dryRun ? names : []) {
    const progress = new TransferProgress(`${table}, comparing`);
    let found = 0;
    const compared = await compareTables({
      from,
      to,
      table,
      where,
      parallel,
      progress,
      onDifference({ kind, partitionKey, rowKey }) {
        if (++found <= 20) say(`${kind}: ${table} ${JSON.stringify([partitionKey, rowKey])}`);
      },
    }).finally(() => progress.end());
    say(`${table}: ${compared} entities compared, ${found} differences`);
    differences += found;
  }
  rejects.close();
  checkpoint.remove();
  return rejects.count === 0 && differences === 0;
}
