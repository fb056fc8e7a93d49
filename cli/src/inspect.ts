import type { Engine, KeyRange } from "@rowhouse/server/engine/engine";
import { EVERYTHING } from "@rowhouse/server/engine/key-codec";
import { scanToEnd } from "@rowhouse/server/engine/scan-to-end";
import { type Command, InvalidArgumentError } from "commander";
import { describeEntry, listStoredTables, openDataFolder } from "./inspect-data.ts";
import { sizesOfTables } from "./inspect-sizes.ts";
import { notEmpty } from "./not-empty.ts";

interface InspectOptions {
  readonly location: string;
  readonly table?: string;
  readonly limit: number;
  readonly sizes?: true;
}

export function addInspectCommand(program: Command): void {
  program
    .command("inspect")
    .description(
      "print what a data folder holds: decoded keys, and entities with their values (read-only)",
    )
    .option("-l, --location <folder>", "the data folder", notEmpty, "rowhouse-data")
    .option("-t, --table <name>", "only the entities of tables with this name")
    .option("--limit <count>", "print at most this many entries", parseLimit, 100)
    .option("--sizes", "print the sizes of each table's partitions, as JSON")
    .action(async (options: InspectOptions) => {
      const engine = await openDataFolder(options.location);
      try {
        if (options.sizes) {
          const sizes = await sizesOfTables(engine, options.table);
          process.stdout.write(`${JSON.stringify(sizes, null, 2)}\n`);
          return;
        }
        await inspect(engine, options, (line) => process.stdout.write(`${line}\n`));
      } finally {
        await engine.close();
      }
    });
}

/** Prints one line per entry, in key order, and a last line if there are more entries than `limit`. */
export async function inspect(
  engine: Engine,
  { table, limit }: Pick<InspectOptions, "table" | "limit">,
  say: (line: string) => void,
): Promise<void> {
  const ranges: KeyRange[] = [];
  if (table === undefined) ranges.push(EVERYTHING);
  else {
    const named = await listStoredTables(engine);
    const found = named.filter((each) => each.table.toLowerCase() === table.toLowerCase());
    if (found.length === 0) throw new Error(`The data folder has no table "${table}".`);
    ranges.push(...found.map(({ range }) => range));
  }
  let printed = 0;
  for (const range of ranges) {
    const ended = await scanToEnd(engine, range, (entry) => {
      if (printed === limit) return false;
      printed++;
      say(describeEntry(entry));
      return true;
    });
    if (ended === "stopped") {
      say(`(more than ${limit} entries; raise --limit to print more)`);
      return;
    }
  }
}

function parseLimit(text: string): number {
  if (/^[1-9]\d{0,8}$/.test(text)) return Number(text);
  throw new InvalidArgumentError("It must be a number from 1 to 999999999.");
}
