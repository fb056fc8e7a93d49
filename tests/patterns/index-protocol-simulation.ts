import assert from "node:assert/strict";
import { parseArgs } from "node:util";
import { type Database, entity, f, isTableError, k } from "@rowhouse/patterns";
import { indexRepairs } from "@rowhouse/patterns/index-repairs";
import { createWorker } from "@rowhouse/patterns/queue-worker";
import { remoteIndex } from "@rowhouse/patterns/remote-index";
import {
  type Client,
  interleave,
  type Layer,
  type Memory,
  type Ports,
} from "@rowhouse/patterns/testing";

/**
 * Drives the library's own code for indexes across partitions through random schedules: writers that insert,
 * change, delete, crash and pause between any two requests, and a worker that repairs. After each request the
 * state is checked; at the end, when no request is in flight, the entries must equal the index computed from
 * the entities.
 *
 * node --conditions=rowhouse-source --import tsx tests/patterns/index-protocol-simulation.ts \
 *   --runs 1000000 --seed 1 [--scenario several] [--mutation blind-delete]
 */

const TABLE = "Item";
const ENTRIES = "ItemByValue";
const QUEUE = "index-repairs";
const VALUES = ["X", "Y"];
/** Values of entities with several values, or none. */
const SETS = ["X", "Y", "X+Y", ""];
const valuesIn = (value: unknown) => String(value).split("+").filter(Boolean);

function declare(scenario: Scenario) {
  const unique = isUnique(scenario);
  return entity("Item", {
    version: 1,
    fields: { id: f.string(), value: f.string(), data: f.int32() },
    key: { partition: [k.str("id")], row: [k.lit("item")] },
    indexes: {
      value: remoteIndex({
        table: ENTRIES,
        partition: hasSets(scenario) ? [k.str("one")] : [k.str("value")],
        row: unique ? [k.lit("owner")] : [k.str("id")],
        unique,
        ...(hasSets(scenario) && { each: { one: ({ value }) => valuesIn(value) } }),
      }),
    },
  });
}

type Item = ReturnType<typeof declare>;

/** Entities with one value each or with several, of an index that is unique or not. */
export const SCENARIOS = ["plain", "unique", "several", "several-unique"] as const;
export type Scenario = (typeof SCENARIOS)[number];

const isUnique = (scenario: Scenario) => scenario.endsWith("unique");
const hasSets = (scenario: Scenario) => scenario.startsWith("several");

export interface Simulation {
  readonly scenario: Scenario;
  readonly runs: number;
  readonly seed: number;
  readonly mutation?: MutationName;
}

/** @throws an Error that names the seed and the schedule if an invariant is violated. */
export async function simulate({ scenario, runs, seed, mutation }: Simulation): Promise<void> {
  const items = declare(scenario);
  const ids = isUnique(scenario) ? ["a", "b"] : ["a"];
  const write = writer(items, ids, hasSets(scenario) ? SETS : VALUES);
  const committed = new WeakMap<Memory, Set<string>>();
  await interleave({
    clients: {
      one: write,
      two: write,
      three: write,
      worker: async (db) => {
        for (let round = 0; round < 2; round++) await repairs(db, items).drain();
      },
    },
    before: async (db) => {
      await db.createTables(items);
      await repairs(db, items).createQueues();
      // Half of the schedules start with an entity whose entry has settled.
      if (db.random() < 0.5) return;
      await db.open(items).insert({ id: "a", value: "X", data: 0 });
      await db.clock.sleep(120_000);
    },
    always: async (backend) => {
      const known = committed.get(backend) ?? new Set();
      committed.set(backend, known);
      await judge(backend, scenario, known);
    },
    recover: async (db) => {
      for (let round = 0; round < 12; round++) {
        await db.clock.sleep(45_000);
        await repairs(db, items).drain();
      }
    },
    check: async (_db, backend) => {
      assert.deepEqual(backend.queues.contents(QUEUE), [], "messages are left");
      const bases = await valuesOf(backend);
      const expected = bases.map(({ id, value, data }) => `${value} of ${id}: ${data}`).sort();
      const found = (await rowsOf(backend, ENTRIES)).map(
        ({ id, value, data, isPending }) => `${value} of ${id}: ${isPending ? "pending" : data}`,
      );
      assert.deepEqual(found.sort(), expected, "the entries are not those of the entities");
    },
    runs,
    seed,
    crashShare: 0.03,
    pausesMs: [1000, 5000, 25_000, 61_000],
    ...(mutation && { layer: (_client: string, ports: Ports) => MUTATIONS[mutation](ports) }),
  });
}

function writer(items: Item, ids: readonly string[], values: readonly string[]): Client {
  return async (db) => {
    const repository = db.open(items);
    const id = pick(db, ids);
    const data = Math.floor(db.random() * 1e9);
    try {
      if (db.random() < 0.25) await repository.delete({ id });
      else await repository.upsert({ id, value: pick(db, values), data });
    } catch (error) {
      const isExpected =
        isTableError(error, "unique-violation") ||
        isTableError(error, "contention-exhausted") ||
        isTableError(error, "throttled");
      if (!isExpected) throw error;
    }
  };
}

function repairs(db: Database, items: Item) {
  return createWorker(db, { queue: QUEUE, handlers: [indexRepairs([items])], concurrency: 1 });
}

interface Found {
  readonly id: string;
  readonly value: string;
  readonly data: number;
  readonly isPending: boolean;
}

async function rowsOf({ tables }: Memory, table: string): Promise<Found[]> {
  const { entities } = await tables.query(table, {});
  return entities.map(({ partitionKey, properties }) => ({
    id: table === TABLE ? partitionKey : String(properties.basePK?.value),
    value: table === TABLE ? String(properties.value?.value) : partitionKey,
    data: Number(properties.data?.value),
    isPending: "rh_s" in properties,
  }));
}

/** The entities, once for each value. */
async function valuesOf(backend: Memory): Promise<Found[]> {
  const bases = await rowsOf(backend, TABLE);
  return bases.flatMap((base) => valuesIn(base.value).map((value) => ({ ...base, value })));
}

/** Checks the invariants, which must hold after every request. */
async function judge(backend: Memory, scenario: Scenario, committed: Set<string>): Promise<void> {
  const bases = await valuesOf(backend);
  const entries = await rowsOf(backend, ENTRIES);
  for (const { id, value, data } of bases) {
    committed.add(`${id} ${value} ${data}`);
    const entry = entries.find((one) => one.id === id && one.value === value);
    assert.ok(entry, `${id} is committed with ${value}, but has no entry`);
  }
  for (const { id, value, data, isPending } of entries) {
    const isKnown = isPending || committed.has(`${id} ${value} ${data}`);
    assert.ok(isKnown, `the entry ${value} of ${id} holds ${data}, which was never committed`);
  }
  if (isUnique(scenario)) {
    const values = bases.map(({ value }) => value);
    assert.equal(new Set(values).size, values.length, `two entities hold ${values[0]}`);
  }
}

function pick<Item>(db: Database, items: readonly Item[]): Item {
  return items[Math.floor(db.random() * items.length)]!;
}

export type MutationName =
  | "base-first"
  | "blind-delete"
  | "no-settling"
  | "clean-up"
  | "blind-finish"
  | "no-deadline";

type Commit = Parameters<Ports["tables"]["commit"]>;

/** Mistakes in the protocol. The simulation must detect each one, which proves that it can. */
const MUTATIONS: Readonly<Record<MutationName, (ports: Ports) => Layer>> = {
  /** Commits the entity before it claims the entry. */
  "base-first": ({ tables }) => {
    const held = new Map<string, Commit>();
    const real = new Map<string, string | undefined>();
    return onCommit(async ([table, mutations, options], send) => {
      const [mutation] = mutations;
      if (table === ENTRIES && isPending(mutation)) {
        const etag = `held ${held.size}`;
        held.set(etag, [table, mutations, options]);
        return [etag];
      }
      if (table === ENTRIES && mutation && "ifMatch" in mutation && held.has(mutation.ifMatch)) {
        const ifMatch = real.get(mutation.ifMatch) ?? "*";
        return tables.commit(table, [{ ...mutation, ifMatch }], options);
      }
      const etags = await send();
      if (table !== TABLE) return etags;
      for (const [etag, commit] of held) {
        if (real.has(etag)) continue;
        const [claimed] = await tables.commit(...commit).catch(() => []);
        real.set(etag, claimed);
      }
      return etags;
    });
  },

  /** Deletes entries even if they have changed. */
  "blind-delete": ({ tables }) =>
    onCommit(([table, mutations, options], send) => {
      const [mutation] = mutations;
      return table === ENTRIES && mutation?.kind === "delete"
        ? tables.commit(table, [{ ...mutation, ifMatch: "*" }], options)
        : send();
    }),

  /** Treats every entry as settled. */
  "no-settling": () => async (call, send) => {
    const answer = await send();
    const isEntry = call.method === "get" && call.args[0] === ENTRIES;
    return isEntry && typeof answer === "object" ? { ...answer, servedAtMs: 1e15 } : answer;
  },

  /** Removes its own claims when the commit lost the race. */
  "clean-up": ({ tables }) => {
    let claims: { partitionKey: string; rowKey: string; ifMatch: string }[] = [];
    return onCommit(async ([table, mutations], send) => {
      const [mutation] = mutations;
      if (table === ENTRIES && mutation && isPending(mutation)) {
        const etags = await send();
        const { partitionKey, rowKey } = mutation;
        claims.push({ partitionKey, rowKey, ifMatch: etags[0] ?? "*" });
        return etags;
      }
      if (table !== TABLE) return send();
      const mine = claims;
      claims = [];
      return send().catch(async (error) => {
        for (const claim of mine) {
          await tables.commit(ENTRIES, [{ kind: "delete", ...claim }]).catch(() => undefined);
        }
        throw error;
      });
    });
  },

  /** Makes entries live even if they have changed. */
  "blind-finish": ({ tables }) =>
    onCommit(([table, mutations, options], send) => {
      const [mutation] = mutations;
      if (table !== ENTRIES || mutation?.kind !== "replace" || isPending(mutation)) return send();
      const { ifMatch: _ifMatch, ...rest } = mutation;
      return tables.commit(table, [{ ...rest, kind: "insertOrReplace" }], options);
    }),

  /** Lets a commit arrive arbitrarily late. */
  "no-deadline": ({ tables }) =>
    onCommit(([table, mutations], send) =>
      table === TABLE ? tables.commit(table, mutations) : send(),
    ),
};

function onCommit(
  work: (
    args: Commit,
    send: () => Promise<(string | undefined)[]>,
  ) => Promise<(string | undefined)[]>,
): Layer {
  return (call, send) =>
    call.port === "tables" && call.method === "commit"
      ? // The arguments and the result are those of `TablesPort.commit`.
        work(call.args as Commit, send as () => Promise<(string | undefined)[]>)
      : send();
}

function isPending(mutation: Commit[1][number] | undefined): boolean {
  return mutation !== undefined && "properties" in mutation && "rh_s" in mutation.properties;
}

if (process.argv[1]?.endsWith("index-protocol-simulation.ts")) {
  const { values } = parseArgs({
    options: {
      runs: { type: "string", default: "1000000" },
      seed: { type: "string", default: "1" },
      scenario: { type: "string" },
      mutation: { type: "string" },
    },
  });
  const seed = Number(values.seed);
  const scenarios = SCENARIOS.filter((name) => (values.scenario ?? name) === name);
  const mutation = Object.keys(MUTATIONS).find(
    (name): name is MutationName => name === values.mutation,
  );
  if (values.mutation && !mutation)
    throw new Error(`Mutations: ${Object.keys(MUTATIONS).join(" ")}`);
  const total = Math.ceil(Number(values.runs) / scenarios.length);
  for (const scenario of scenarios) {
    for (let done = 0; done < total; done += 1000) {
      const runs = Math.min(1000, total - done);
      await simulate({ scenario, runs, seed: seed + done, ...(mutation && { mutation }) });
      if (process.stderr.isTTY || (done + runs) % 50_000 === 0 || done + runs === total) {
        console.error(`${scenario}: ${done + runs} schedules from seed ${seed}, all as promised`);
      }
    }
  }
}
