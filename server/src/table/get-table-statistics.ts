import { LIMITS } from "@rowhouse/protocol/limits";
import { decodeText, partitionPrefixRange } from "../engine/key-codec.ts";
import { scanToEnd } from "../engine/scan-to-end.ts";
import { SketchBuilder, type TableSketch } from "../query/table-sketch.ts";
import { jsonResponse } from "./indexes/index-json.ts";
import { type TableAddress, type TableOperation, tableAddressOf } from "./table-operation.ts";

/** A walk over more ends early: it would take longer than people wait for a number. */
const ENTITIES_MAX = 1_000_000;
const WALK_MS_MAX = 2_000;
/** Reading the clock costs as much as stepping over an entity. */
const ENTITIES_PER_CLOCK_LOOK = 256;

interface Input extends TableAddress {
  readonly arrivedAt: number;
}

/**
 * Get Table Statistics, ours: how the entities of a table are spread over its keys, walked now. Nothing is kept. Fails
 * with TableNotFound (404).
 */
export const getTableStatistics: TableOperation<Input, TableSketch> = {
  name: "GetTableStatistics",
  route: { method: "GET", resource: "statistics" },
  // It tells of all keys, which no table SAS with a range of keys may.
  access: { resourceType: "o", accountSas: ["r"], serviceSas: [], bearer: "read" },
  decode: (request) => ({ ...tableAddressOf(request), arrivedAt: request.arrivedAt }),

  async run({ clock, engine, entities }, { account, table, arrivedAt }) {
    const opened = await entities.openTable(account, table);
    const { prefix } = opened;
    const deadline = arrivedAt + Math.min(WALK_MS_MAX, LIMITS.pageTimeMs);
    const sketch = new SketchBuilder();
    let partition: Buffer | undefined;
    const ended = await scanToEnd(engine, partitionPrefixRange(prefix), ({ key, value }) => {
      const beginsPartition = partition === undefined || !partition.equals(key.partition);
      if (beginsPartition) partition = Buffer.from(key.partition);
      const position = () => ({
        partitionKey: decodeText(key.partition, prefix.length),
        rowKey: decodeText(key.sort),
      });
      sketch.add(beginsPartition, position, value.length);
      if (sketch.entities >= ENTITIES_MAX) return false;
      return sketch.entities % ENTITIES_PER_CLOCK_LOOK !== 0 || clock.now() <= deadline;
    });
    await entities.checkStillThere(account, table, opened);
    return sketch.finish(arrivedAt, ended === "complete");
  },

  encode: (sketch) => jsonResponse(200, sketch),
};
