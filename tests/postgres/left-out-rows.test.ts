import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import { printFilter } from "@rowhouse/protocol/filter-printer";
import { parseAccounts } from "@rowhouse/server/auth/account-settings";
import type { Engine } from "@rowhouse/server/engine/engine";
import { openPostgresEngine } from "@rowhouse/server/engine/postgres/postgres-engine";
import { type TestServer, testServer } from "@rowhouse/server/engine/postgres/test-server";
import { decorated } from "@rowhouse/server/engine/test-decorated";
import { planQuery } from "@rowhouse/server/query/planner";
import { everyKey, randomFilters } from "@rowhouse/server/query/test-random-filters";
import { type RunningServer, startServer } from "@rowhouse/server/server";
import fc from "fast-check";
import { TableWire } from "../wire/table-wire.ts";

const KEY =
  "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw==";

/** All keys of the random filters, except those that no entity may have on the wire. */
const named = everyKey.filter(
  ({ partitionKey, rowKey }) => !`${partitionKey}${rowKey}`.includes("\u0001"),
);
/** Enough entities between them that the database reports its progress. */
const between = Array.from({ length: 1500 }, (_, index) => ({
  partitionKey: `aa${index % 10}`,
  rowKey: `k${Math.floor(index / 10)}`,
}));
const entities = [...named, ...between];
const RUNS = Number(process.env.RUNS ?? 40);
const TABLE = "Entities";
const seed = Number(process.env.SEED ?? Date.now() % 2 ** 31);

interface Pages {
  /** Keys of the entities of each page that has any. */
  readonly pages: readonly (readonly string[])[];
  readonly entitiesRead: number;
}

describe("Row keys that the database compares", () => {
  let database: TestServer;
  let url: string;
  const fronts: RunningServer[] = [];
  let comparing: TableWire;
  let visiting: TableWire;

  before(async () => {
    database = await testServer();
    url = await database.createDatabase();
    const open = () => openPostgresEngine({ url, allowUnsafe: true });
    comparing = await front(await open());
    visiting = await front(visitingAll(await open()));
    await comparing.send("POST", "/Tables", { body: { TableName: TABLE } });
    await Promise.all(Array.from({ length: 8 }, (_, share) => insert(share, 8)));
  });
  after(async () => {
    comparing.close();
    visiting.close();
    await Promise.all(fronts.map((each) => each.close()));
    await database.dropDatabase(url);
    await database.stop();
  });

  async function insert(share: number, shares: number): Promise<void> {
    const wire = wireOf(fronts[0]!);
    for (let index = share; index < entities.length; index += shares) {
      const { partitionKey: PartitionKey, rowKey: RowKey } = entities[index]!;
      const body = { PartitionKey, RowKey, P: index % 7, Q: `${index % 3}` };
      assert.equal((await wire.send("POST", `/${TABLE}`, { body })).status, 201);
    }
    wire.close();
  }

  async function front(engine: Engine): Promise<TableWire> {
    const server = await startServer({
      accounts: parseAccounts(undefined),
      engine,
      listen: { table: { host: "127.0.0.1", port: 0 } },
    });
    fronts.push(server);
    return wireOf(server);
  }

  it(`give the same pages and cost as when the front end compares them (seed ${seed})`, async () => {
    const filters = randomFilters.filter((filter) => planQuery(filter).rowKeys !== undefined);
    await fc.assert(
      fc.asyncProperty(filters, fc.constantFrom(50, 300, 1000), async (filter, top) => {
        const text = printFilter(filter);
        assert.deepEqual(await read(comparing, text, top), await read(visiting, text, top));
      }),
      { numRuns: RUNS, seed },
    );
  });

  it("keep all entities but the matching ones off the network", async () => {
    const bytesOf = async (wire: TableWire) => {
      const answer = await wire.send(
        "GET",
        `/${TABLE}()?$filter=${encodeURIComponent("RowKey eq 'k7'")}`,
      );
      assert.equal(answer.items().length, 10);
      const cost = answer.header("x-rowhouse-cost")!;
      assert.match(cost, new RegExp(`entities-read=${entities.length},`));
      return Number(/bytes-read=(\d+)/.exec(cost)![1]);
    };
    const [sent, all] = [await bytesOf(comparing), await bytesOf(visiting)];
    assert.ok(sent * 100 < all, `${sent} of ${all} bytes`);
  });
});

/** An engine that sends every row to the front end. */
function visitingAll(engine: Engine): Engine {
  return decorated(engine, {
    scan: (range, visit, hints) => engine.scan(range, visit, { ...hints, wanted: undefined }),
    scanRanges: (ranges, visit, hints) =>
      engine.scanRanges!(ranges, visit, { ...hints, wanted: undefined }),
  });
}

function wireOf(server: RunningServer): TableWire {
  const account = "devstoreaccount1";
  return new TableWire({ url: `${server.urls.table}/${account}`, account, key: KEY });
}

async function read(wire: TableWire, filter: string, top: number): Promise<Pages> {
  const pages: string[][] = [];
  let entitiesRead = 0;
  const query = `/${TABLE}()?$filter=${encodeURIComponent(filter)}&$top=${top}&$select=PartitionKey,RowKey`;
  for (let next: string | undefined = ""; next !== undefined; ) {
    const answer = await wire.send("GET", query + next);
    assert.equal(answer.status, 200, String(answer));
    const keys = answer.items().map(({ PartitionKey, RowKey }) => `${PartitionKey}/${RowKey}`);
    if (keys.length > 0) pages.push(keys);
    entitiesRead += Number(/entities-read=(\d+)/.exec(answer.header("x-rowhouse-cost")!)![1]);
    const partition = answer.header("x-ms-continuation-nextpartitionkey");
    const row = answer.header("x-ms-continuation-nextrowkey");
    next =
      partition === undefined
        ? undefined
        : `&NextPartitionKey=${partition}${row === undefined ? "" : `&NextRowKey=${row}`}`;
  }
  return { pages, entitiesRead };
}
