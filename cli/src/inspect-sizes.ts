import type { Engine } from "@rowhouse/server/engine/engine";
import { decodeText } from "@rowhouse/server/engine/key-codec";
import { scanToEnd } from "@rowhouse/server/engine/scan-to-end";
import { listStoredTables } from "./inspect-data.ts";

export interface PartitionSize {
  readonly partitionKey: string;
  entities: number;
  /** Bytes of the stored records, without keys. */
  bytes: number;
}

export interface TableSizes {
  /** `account/table`. */
  readonly table: string;
  readonly partitions: number;
  readonly entities: number;
  readonly bytes: number;
  /** Share of the bytes in the largest partition, and in the ten largest. */
  readonly skew: { readonly first: number; readonly firstTen: number };
  /** By bytes, the largest first. */
  readonly largest: readonly PartitionSize[];
}

const LARGEST_MAX = 10;

/** The exact sizes of each table's partitions, from one pass that holds only the ten largest in memory. */
export async function sizesOfTables(engine: Engine, only?: string): Promise<TableSizes[]> {
  const sizes: TableSizes[] = [];
  for (const { account, table, range, prefix } of await listStoredTables(engine)) {
    if (only !== undefined && only.toLowerCase() !== table.toLowerCase()) continue;
    const largest: PartitionSize[] = [];
    let [partitions, entities, bytes] = [0, 0, 0];
    let current: PartitionSize | undefined;
    let currentBytes: Uint8Array = new Uint8Array(0);
    const end = () => {
      if (current) keep(largest, current);
    };
    await scanToEnd(engine, range, ({ key, value }) => {
      // The entities of a partition are adjacent.
      if (!current || Buffer.compare(currentBytes, key.partition) !== 0) {
        end();
        partitions++;
        currentBytes = Uint8Array.from(key.partition);
        current = { partitionKey: decodeText(key.partition, prefix.length), entities: 0, bytes: 0 };
      }
      current.entities++;
      current.bytes += value.length;
      entities++;
      bytes += value.length;
      return true;
    });
    end();
    const share = (count: number) => {
      const held = largest.slice(0, count).reduce((sum, each) => sum + each.bytes, 0);
      return bytes === 0 ? 0 : Math.round((held / bytes) * 1000) / 1000;
    };
    const skew = { first: share(1), firstTen: share(LARGEST_MAX) };
    sizes.push({ table: `${account}/${table}`, partitions, entities, bytes, skew, largest });
  }
  if (only !== undefined && sizes.length === 0)
    throw new Error(`The data folder has no table "${only}".`);
  return sizes;
}

function keep(largest: PartitionSize[], size: PartitionSize): void {
  const least = largest.at(-1);
  if (largest.length === LARGEST_MAX && least && size.bytes <= least.bytes) return;
  largest.push(size);
  largest.sort((a, b) => b.bytes - a.bytes);
  if (largest.length > LARGEST_MAX) largest.pop();
}
