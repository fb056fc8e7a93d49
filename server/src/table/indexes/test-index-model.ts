import assert from "node:assert/strict";
import { decodeEntity } from "@rowhouse/protocol/entity-json";
import { openAccountIds } from "../../catalog/account-ids.ts";
import { Catalog } from "../../catalog/catalog.ts";
import { KEY_SPACES } from "../../catalog/key-spaces.ts";
import { systemClock } from "../../clock.ts";
import type { Engine } from "../../engine/engine.ts";
import { joinKey, partitionPrefixRange } from "../../engine/key-codec.ts";
import { scanToEnd } from "../../engine/scan-to-end.ts";
import { recordOf } from "../entity-record.ts";
import { EntityStore } from "../entity-store.ts";
import type { Mutation } from "../mutation.ts";
import { tablePrefix } from "../table-keys.ts";
import type { TableValue } from "../table-value.ts";
import { IndexBuilder } from "./index-builder.ts";
import { IndexCatalog } from "./index-catalog.ts";
import { IndexCheck } from "./index-check.ts";
import { entryOf, openIndex } from "./open-index.ts";

export const ACCOUNT = "test";
export const TABLE = "Things";

/** The parts of a table service that keep indexes, over an engine. Several may share one engine, as processes do. */
export async function openIndexLab(engine: Engine) {
  const accountIds = await openAccountIds(engine, [ACCOUNT]);
  const catalog = new Catalog<TableValue>(engine, KEY_SPACES.tableCatalog, accountIds, systemClock);
  const entities = new EntityStore(engine, catalog, systemClock);
  const indexes = new IndexCatalog({ engine, catalog, reaper: { wake() {} } });
  const onError = (error: unknown) => {
    throw error;
  };
  const parts = { engine, catalog, indexes, clock: systemClock };
  const builder = new IndexBuilder({ ...parts, onError });
  const check = new IndexCheck(parts);

  /** Declares an index and builds it to the end. */
  const declare = async (name: string, key: string) => {
    await indexes.create(ACCOUNT, { name, table: TABLE, key, rate: 0 });
    await build(name);
  };
  const build = async (name: string) => {
    while ((await builder.step(ACCOUNT, name)) !== "over");
  };
  const write = (...mutations: Mutation[]) => entities.commit(ACCOUNT, TABLE, mutations);
  return { engine, catalog, entities, indexes, builder, check, declare, build, write };
}

export type IndexLab = Awaited<ReturnType<typeof openIndexLab>>;

export function insertion(
  kind: Mutation["kind"],
  pk: string,
  rk: string,
  properties: string,
): Mutation {
  const keys = { partitionKey: pk, rowKey: rk };
  const entity =
    kind === "delete" ? undefined : decodeEntity(new TextEncoder().encode(`{${properties}}`), keys);
  return { kind, ...keys, entity, ifMatch: kind === "delete" ? "*" : undefined };
}

/** Asserts that every index of the table is, byte for byte, what its entities say. */
export async function assertIndexesAreRight(
  { catalog, engine }: IndexLab,
  note = "",
): Promise<void> {
  const accountId = catalog.accountId(ACCOUNT);
  const table = await catalog.find(ACCOUNT, TABLE);
  for (const index of table?.value.indexes ?? []) {
    const open = openIndex(accountId, index);
    const expected = new Map<string, string>();
    await scanToEnd(engine, partitionPrefixRange(tablePrefix(accountId, table!.id)), (entry) => {
      const own = entryOf(open, recordOf(entry), 0);
      if (own) expected.set(hex(joinKey(own.key)), withoutTimestamp(own.value));
      return true;
    });
    const stored = new Map<string, string>();
    await scanToEnd(engine, partitionPrefixRange(open.prefix), (entry) => {
      stored.set(hex(joinKey(entry.key)), withoutTimestamp(entry.value));
      return true;
    });
    assert.deepEqual(stored, expected, `${index.name} ${note}`);
  }
}

function withoutTimestamp(record: Uint8Array): string {
  const copy = Uint8Array.from(record);
  copy.fill(0, 3, 11);
  return hex(copy);
}

function hex(bytes: Uint8Array): string {
  return Buffer.from(bytes).toString("hex");
}

/** Numbers from 0 to below `limit`, from a seed. */
export function randomFrom(seed: number): (limit: number) => number {
  let state = seed >>> 0 || 1;
  return (limit) => {
    state ^= state << 13;
    state ^= state >>> 17;
    state ^= state << 5;
    return (state >>> 0) % limit;
  };
}

const VALUES: readonly ((random: (limit: number) => number) => string)[] = [
  (random) =>
    `:${JSON.stringify(["", "a", "b!", "a/b", 'q"', "é", "😀", "x".repeat(300), "x".repeat(301)][random(9)])}`,
  (random) => `:${random(5) - 2}`,
  (random) => `@odata.type":"Edm.Int64","#":"${random(5) - 2}"`,
  (random) => `:${random(5) - 2}.5`,
  (random) => `:${random(2) === 0}`,
  (random) => `@odata.type":"Edm.DateTime","#":"20${10 + random(9)}-01-01T00:00:00Z"`,
  () => `@odata.type":"Edm.Guid","#":"c56a4180-65aa-42ec-a945-5fd21dec0538"`,
  (random) => `@odata.type":"Edm.Binary","#":"${Buffer.alloc(random(4), 7).toString("base64")}"`,
  (random) => `@odata.type":"Edm.Double","#":"${["NaN", "Infinity", "-Infinity"][random(3)]}"`,
];

function randomProperties(random: (limit: number) => number): string {
  const properties: string[] = [];
  for (const name of ["A", "B", "C"]) {
    if (random(4) === 0) continue;
    // Mostly of one type, as in real tables.
    const kind = random(3) === 0 ? random(VALUES.length) : 0;
    const value = VALUES[kind]!(random);
    properties.push(
      value.startsWith(":") ? `"${name}"${value}` : `"${name}${value.replace("#", name)}`,
    );
  }
  return properties.join(",");
}

const PARTITIONS = ["", "p", "p!", "q😀", "é/".replace("/", "")];
const ROWS = ["", "r", "r1", "r\u00ff", "a b", "~", "k".repeat(400)];
const KINDS: readonly Mutation["kind"][] = ["insert", "replace", "merge", "delete"];

/** Some mutations of one partition, each of another entity; one of them may be impossible. */
export function randomMutations(random: (limit: number) => number): Mutation[] {
  const partitionKey = PARTITIONS[random(PARTITIONS.length)]!;
  const count = random(3) === 0 ? 1 + random(4) : 1;
  const rows = new Set(Array.from({ length: count }, () => ROWS[random(ROWS.length)]!));
  return [...rows].map((rowKey) => {
    const kind = KINDS[random(4)]!;
    const mutation = insertion(kind, partitionKey, rowKey, randomProperties(random));
    const hasCondition = kind !== "insert" && kind !== "delete" && random(3) === 0;
    return hasCondition ? { ...mutation, ifMatch: "*" } : mutation;
  });
}

/** A random history; after each hundred operations every index must be right. */
export async function runRandomHistory(
  lab: IndexLab,
  { seed, operations }: { readonly seed: number; readonly operations: number },
): Promise<void> {
  const random = randomFrom(seed);
  for (let done = 0; done < operations; done++) {
    await lab.write(...randomMutations(random));
    if (done % 100 === 99) await assertIndexesAreRight(lab, `seed ${seed}, operation ${done}`);
  }
}
