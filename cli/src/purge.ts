import { decodeEntity } from "@rowhouse/protocol/entity-json";
import { type Command, InvalidArgumentError } from "commander";
import { Pace } from "./move/copy-table.ts";
import { connect, countOption, ENDPOINT_HELP, interruptible } from "./move/options.ts";
import { etagOf, withoutEtag } from "./move/raw-entity.ts";
import { bothFilters, readPages } from "./move/read-table.ts";
import { TransferProgress } from "./move/transfer-progress.ts";
import { type Change, writeChanges } from "./move/write-table.ts";
import { notEmpty } from "./not-empty.ts";

interface PurgeOptions {
  readonly from: string;
  readonly filter?: string;
  readonly olderThan?: number;
  readonly rate?: number;
  readonly dryRun?: true;
}

export function addPurgeCommand(program: Command): void {
  program
    .command("purge")
    .description(
      "delete the entities of a table that a filter selects, or that are older than a time",
    )
    .argument("<table>", "the table")
    .requiredOption("--from <endpoint>", ENDPOINT_HELP, notEmpty)
    .option("--filter <filter>", "a $filter: only these entities", notEmpty)
    .option(
      "--older-than <time>",
      "only entities last written so long ago: 90d, 12h, 30m",
      parseAge,
    )
    .option("--rate <entities>", "delete at most so many a second", countOption(999_999_999))
    .option("--dry-run", "count them, delete nothing")
    .action(async (table: string, options: PurgeOptions) => {
      const { from, filter, olderThan, dryRun, rate = Number.POSITIVE_INFINITY } = options;
      if (filter === undefined && olderThan === undefined) {
        throw new Error("Say which entities go, with --filter, --older-than, or both.");
      }
      const connection = await connect(from, interruptible());
      const before = olderThan && new Date(Date.now() - olderThan).toISOString();
      const age = before && `Timestamp lt datetime'${before}'`;
      const pace = new Pace(rate);
      const progress = new TransferProgress(table);
      let found = 0;
      let kept = 0;
      const pages = readPages(connection, {
        table,
        filter: bothFilters(filter, age || undefined),
        select: ["PartitionKey", "RowKey"],
      });
      for await (const { entities } of pages) {
        const changes = entities.map(deletion);
        found += changes.length;
        if (!dryRun) {
          await pace.wait(changes.length);
          kept += (await writeChanges(connection, table, "replace", changes)).length;
        }
        progress.add(changes.length);
      }
      progress.end();
      const changed = kept > 0 ? `; ${kept} had changed since they were found, and stay` : "";
      process.stdout.write(
        dryRun
          ? `${table}: ${found} entities would be deleted\n`
          : `${table}: ${found - kept} entities deleted${changed}\n`,
      );
    });
}

/** An entity that somebody writes meanwhile may not be meant any more: it is deleted as it was found. */
function deletion(entity: Buffer): Change {
  const etag = etagOf(entity);
  const { partitionKey, rowKey } = decodeEntity(withoutEtag(entity));
  return { partitionKey, rowKey, entity: undefined, etag };
}

const UNIT_MS = { m: 60_000, h: 3_600_000, d: 86_400_000 } as const;

function parseAge(text: string): number {
  const [, count, unit] = /^([1-9]\d{0,5})([mhd])$/.exec(text) ?? [];
  if (count !== undefined && (unit === "m" || unit === "h" || unit === "d")) {
    return Number(count) * UNIT_MS[unit];
  }
  throw new InvalidArgumentError("It must be a number of minutes, hours or days: 30m, 12h or 90d.");
}
