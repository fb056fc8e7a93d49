import { storedNames } from "../catalog/catalog.ts";
import { KEY_SPACES } from "../catalog/key-spaces.ts";
import type { Engine } from "../engine/engine.ts";
import type { HotPartition } from "../insight/partition-load.ts";
import { entityKey, tablePrefix } from "./table-keys.ts";

/** The node of a cluster that has each of these partitions of the engine, in their order; undefined if none is known. */
export type NodesOf = (
  partitions: readonly Uint8Array[],
) => Promise<readonly (string | undefined)[]>;

/** A partition with the node of the cluster that bears its load. */
export interface PlacedPartition extends HotPartition {
  readonly node?: string;
}

/** Finds the nodes of hot partitions. Those of tables that are gone have none. */
export async function withNodes(
  engine: Engine,
  nodesOf: NodesOf,
  partitions: readonly HotPartition[],
): Promise<readonly PlacedPartition[]> {
  const prefixes = new Map<string, Uint8Array>();
  for (const { account, accountId, name, id } of await storedNames(
    engine,
    KEY_SPACES.tableCatalog,
  )) {
    prefixes.set(`${account}/${name}`, tablePrefix(accountId, id));
  }
  const placed = partitions.flatMap((hot, index) => {
    const [, table = "", partitionKey = ""] = /^([^/]*\/[^/]*)\/(.*)$/s.exec(hot.partition) ?? [];
    const prefix = prefixes.get(table);
    return prefix ? [{ index, partition: entityKey(prefix, partitionKey, "").partition }] : [];
  });
  const nodes = await nodesOf(placed.map(({ partition }) => partition));
  const byIndex = new Map(placed.map(({ index }, at) => [index, nodes[at]]));
  return partitions.map((hot, index) => {
    const node = byIndex.get(index);
    return node === undefined ? hot : { ...hot, node };
  });
}
