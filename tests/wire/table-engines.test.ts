import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { LIMITS } from "@rowhouse/protocol/limits";
import type { Awaitable } from "@rowhouse/server/awaitable";
import { openAccountIds } from "@rowhouse/server/catalog/account-ids";
import { Catalog } from "@rowhouse/server/catalog/catalog";
import { KEY_SPACES } from "@rowhouse/server/catalog/key-spaces";
import { systemClock } from "@rowhouse/server/clock";
import type { Engine, Key, KeyRange, ScanEnd, Visit } from "@rowhouse/server/engine/engine";
import { copyKey } from "@rowhouse/server/engine/key-codec";
import { openLmdbEngine } from "@rowhouse/server/engine/lmdb/lmdb-engine";
import { MemoryEngine } from "@rowhouse/server/engine/memory-engine";
import type { ServerOptions } from "@rowhouse/server/server";
import { withFolder } from "../support/rowhouse-process.ts";
import { openLastingEngine, openTestEngine } from "../support/test-engine.ts";
import type { HttpAnswer } from "./http-answer.ts";
import { HttpConnection } from "./http-connection.ts";
import { startLocalServer } from "./local-server.ts";
import { assertRefused } from "./refusals.ts";
import { BATCH_TYPE, changeset } from "./table-batch.ts";
import { TableWire } from "./table-wire.ts";

/* Behavior that the engine takes part in: restarts between pages, time, the length of keys, disconnected clients. */

const KEY =
  "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw==";

/** Runs the work with a server over an engine, then closes both. */
async function serve<T>(
  engine: Engine,
  work: (wire: TableWire) => Promise<T>,
  options: Partial<ServerOptions> = {},
): Promise<T> {
  const server = await startLocalServer({ engine, ...options });
  const wire = new TableWire({
    url: `${server.url}/devstoreaccount1`,
    account: "devstoreaccount1",
    key: KEY,
  });
  try {
    return await work(wire);
  } finally {
    wire.close();
    await server.close();
  }
}

async function createTable(wire: TableWire): Promise<void> {
  const answer = await wire.send("POST", "/Tables", { body: { TableName: "People" } });
  assert.equal(answer.status, 201);
}

function rowsOf(answer: HttpAnswer): string[] {
  assert.equal(answer.status, 200, String(answer));
  return answer.items().map(({ RowKey }) => String(RowKey));
}

function nextOf(answer: HttpAnswer): string {
  const partition = answer.header("x-ms-continuation-nextpartitionkey");
  const row = answer.header("x-ms-continuation-nextrowkey");
  return partition ? `&NextPartitionKey=${partition}${row ? `&NextRowKey=${row}` : ""}` : "";
}

/** When a query starts its scan, removes the table and frees the front of it, as another process might. */
class VanishingTables extends MemoryEngine {
  isArmed = false;

  override scan(range: KeyRange, visit: Visit): Awaitable<ScanEnd> {
    if (!this.isArmed) return super.scan(range, visit);
    this.isArmed = false;
    return this.#vanish(range).then(() => super.scan(range, visit));
  }

  async #vanish(range: KeyRange): Promise<void> {
    const ids = await openAccountIds(this, ["devstoreaccount1"]);
    const catalog = new Catalog(this, KEY_SPACES.tableCatalog, ids, systemClock);
    await catalog.remove("devstoreaccount1", "People");
    const deletes: Key[] = [];
    await super.scan(range, ({ key }) => {
      deletes.push(copyKey(key));
      return false;
    });
    await this.commit({ version: this.nextVersion(), checks: [], puts: [], deletes });
  }
}

describe("Pages", () => {
  it("are refused, not truncated, if their table is removed and freed while they are read", () => {
    const engine = new VanishingTables();
    return serve(engine, async (wire) => {
      await createTable(wire);
      for (const RowKey of ["1", "2", "3"]) {
        const body = { PartitionKey: "p", RowKey };
        await wire.send("POST", "/People", { body });
      }
      assert.deepEqual(rowsOf(await wire.send("GET", "/People()")), ["1", "2", "3"]);
      engine.isArmed = true;
      const answer = await wire.send("GET", "/People()");
      assertRefused(answer, { status: 404, code: "TableNotFound" });
    });
  });

  it("continue after a restart, and after the entity that their token names was deleted", async () => {
    await withFolder(async (path) => {
      const rows = Array.from({ length: 9 }, (_, i) => `r${i}`);
      let next = "";
      const seen: string[] = [];
      await serve(await openLastingEngine(path), async (wire) => {
        await createTable(wire);
        for (const RowKey of rows)
          await wire.send("POST", "/People", { body: { PartitionKey: "p", RowKey } });
      });
      for (let page = 0; page === 0 || next !== ""; page++) {
        await serve(await openLastingEngine(path), async (wire) => {
          const answer = await wire.send("GET", `/People?$top=2${next}`);
          seen.push(...rowsOf(answer));
          next = nextOf(answer);
          const gone = `/People(PartitionKey='p',RowKey='r${(page + 1) * 2}')`;
          if (page === 1) await wire.send("DELETE", gone, { headers: { "If-Match": "*" } });
        });
      }
      assert.deepEqual(
        seen,
        rows.filter((row) => row !== "r4"),
      );
    });
  });

  it("end when their time is over, with a token and perhaps no entities", async () => {
    let now = Date.now();
    let stepMs = 0;
    const clock = { now: () => (now += stepMs) };
    await serve(
      await openTestEngine(),
      async (wire) => {
        await createTable(wire);
        const requests = Array.from({ length: 1000 }, (_, i) =>
          wire.bytes("POST", "/People", { body: { PartitionKey: "p", RowKey: String(1000 + i) } }),
        );
        await wire.pipeline(requests);
        // From now on every reading of the clock advances it by a second.
        stepMs = 1000;
        let pages = 0;
        let empty = 0;
        const seen: string[] = [];
        for (let next = ""; pages === 0 || next !== ""; pages++) {
          const filter = encodeURIComponent("RowKey eq '1999' or v eq 1");
          const answer = await wire.send("GET", `/People?$filter=${filter}${next}`);
          seen.push(...rowsOf(answer));
          if (answer.items().length === 0) empty++;
          next = nextOf(answer);
        }
        assert.deepEqual(seen, ["1999"]);
        assert.equal(pages > 1 && empty === pages - 1, true, `${pages} pages, ${empty} empty`);
      },
      { clock, checkDate: false },
    );
  });

  it("of tables end when their time is over too, and every page makes progress", async () => {
    let now = Date.now();
    let stepMs = 0;
    const clock = { now: () => (now += stepMs) };
    await serve(
      await openTestEngine(),
      async (wire) => {
        const requests = Array.from({ length: 300 }, (_, i) =>
          wire.bytes("POST", "/Tables", { body: { TableName: `T${1000 + i}` } }),
        );
        await wire.pipeline(requests);
        // From now on every reading of the clock advances it by more than a page may take.
        stepMs = 2 * LIMITS.pageTimeMs;
        const pages: string[][] = [];
        for (let token: string | undefined = ""; token !== undefined; ) {
          const filter = encodeURIComponent("TableName eq 'T1299'");
          const from = token && `&NextTableName=${token}`;
          const answer = await wire.send("GET", `/Tables?$filter=${filter}${from}`);
          assert.equal(answer.status, 200, String(answer));
          pages.push(answer.items().map(({ TableName }) => String(TableName)));
          token = answer.header("x-ms-continuation-nexttablename");
        }
        assert.deepEqual(pages, [[], [], ["T1299"]]);
      },
      { clock, checkDate: false },
    );
  });
});

describe("Keys", () => {
  const kinds: Record<string, string> = { ASCII: "k", Latin: "é", CJK: "日", surrogates: "𝒳" };
  const repeat = (unit: string, length: number) => unit.repeat(length / unit.length);

  it("of 512 units each are accepted, whatever their characters, on LMDB", async () => {
    await withFolder(async (path) => {
      await serve(await openLmdbEngine({ path }), async (wire) => {
        await createTable(wire);
        for (const [kind, unit] of Object.entries(kinds)) {
          const key = repeat(unit, 512);
          const body = { PartitionKey: key, RowKey: key };
          assert.equal((await wire.send("POST", "/People", { body })).status, 201, kind);
          const address = `/People(PartitionKey='${encodeURIComponent(key)}',RowKey='${encodeURIComponent(key)}')`;
          assert.equal((await wire.send("GET", address)).status, 200, kind);
        }
        assert.equal(rowsOf(await wire.send("GET", "/People")).length, 4);
      });
    });
  });

  it("of up to 1,024 units are accepted if they fit the engine, and refused if not, even in reads", async () => {
    await serve(await openTestEngine(), async (wire) => {
      await createTable(wire);
      const long = repeat("k", 1024);
      const body = { PartitionKey: long, RowKey: long };
      assert.equal((await wire.send("POST", "/People", { body })).status, 201);
      const wide = repeat("日", 1024);
      const refusal = { status: 400, code: "PropertyValueTooLarge" };
      const tooWide = { PartitionKey: wide, RowKey: wide };
      assertRefused(await wire.send("POST", "/People", { body: tooWide }), refusal);
      const address = `/People(PartitionKey='${encodeURIComponent(wide)}',RowKey='${encodeURIComponent(wide)}')`;
      for (const [method, headers] of [
        ["PUT", {}],
        ["MERGE", { "If-Match": "*" }],
        ["DELETE", { "If-Match": "*" }],
      ] as const) {
        const answer = await wire.send(method, address, {
          headers,
          body: method === "DELETE" ? undefined : {},
        });
        assert.equal(answer.status === 400 || answer.status === 404, true, String(answer));
      }
      const read = await wire.send("GET", address);
      assert.equal(read.status === 400 || read.status === 404, true, String(read));
      // Such a key is still a valid place to start a range.
      const filter = encodeURIComponent(`PartitionKey eq '${wide}' or PartitionKey lt '${wide}'`);
      assert.deepEqual(rowsOf(await wire.send("GET", `/People?$filter=${filter}`)), [long]);
    });
  });
});

describe("Two servers over one engine", () => {
  it("each return immediately the service properties that the other has set", async () => {
    const engine = await openTestEngine();
    const path = "/?restype=service&comp=properties";
    const rule = (origin: string) =>
      `<StorageServiceProperties><Cors><CorsRule><AllowedMethods>GET</AllowedMethods><AllowedOrigins>${origin}</AllowedOrigins><AllowedHeaders /><ExposedHeaders /><MaxAgeInSeconds>5</MaxAgeInSeconds></CorsRule></Cors></StorageServiceProperties>`;
    const now = Date.now();
    await serve(engine, (one) =>
      serve(
        engine,
        async (other) => {
          for (const origin of ["http://a.test", "http://b.test"]) {
            assert.equal((await one.send("PUT", path, { body: rule(origin) })).status, 202);
            const told = await other.send("GET", path);
            assert.ok(told.text.includes(origin), String(told));
          }
        },
        { clock: { now: () => now } },
      ),
    );
  });
});

describe("A client that disconnects", () => {
  it("while it sends a transaction has none of it executed, wherever it stops", async () => {
    for (const lane of ["node", "fast"] as const) {
      await serve(
        await openTestEngine(),
        async (wire) => {
          await createTable(wire);
          const calls = [1, 2, 3].map((row) => ({
            method: "PUT",
            path: `/People(PartitionKey='p',RowKey='${row}')`,
            body: {},
          }));
          const whole = wire.bytes("POST", "/$batch", {
            body: changeset(calls),
            headers: { "Content-Type": BATCH_TYPE },
          });
          for (let at = whole.length - 1; at > 0; at -= 97) {
            const connection = await HttpConnection.open(wire.url);
            connection.write(whole.subarray(0, at));
            if (at % 2 === 0) connection.end();
            else connection.socket.destroySoon();
            await connection.rest();
            connection.destroy();
          }
          assert.deepEqual(rowsOf(await wire.send("GET", "/People")), []);
        },
        { lane },
      );
    }
  });

  it("before it is answered leaves its write whole or absent, and the server working", async () => {
    for (const lane of ["node", "fast"] as const) {
      await serve(
        await openTestEngine(),
        async (wire) => {
          await createTable(wire);
          const put = (row: number) =>
            wire.bytes("PUT", `/People(PartitionKey='p',RowKey='${row}')`, { body: { row } });
          for (let row = 0; row < 20; row++) {
            const connection = await HttpConnection.open(wire.url);
            connection.write(put(row));
            connection.socket.resetAndDestroy();
          }
          const list = await wire.send("GET", "/People");
          for (const { RowKey, row } of list.items()) assert.equal(RowKey, String(row));
          assert.equal((await wire.pipeline([put(99)]))[0]!.status, 204);
        },
        { lane },
      );
    }
  });
});
