import assert from "node:assert/strict";
import { existsSync } from "node:fs";
import { after, before, describe, it } from "node:test";
import { fileURLToPath } from "node:url";
import {
  AzureNamedKeyCredential,
  generateTableSas,
  odata,
  RestError,
  TableClient,
  TableServiceClient,
  type TransactionAction,
} from "@azure/data-tables";
import { DEVELOPMENT_ACCOUNT } from "@rowhouse/server/auth/accounts";
import { seededRandom } from "../support/seeded-random.ts";
import { type LocalServer, startLocalServer } from "./local-server.ts";
import { type Movie, makeUpMovies, readMovies } from "./movies.ts";
import { pythonWithTables, queryWithPython } from "./python-client.ts";
import { TableWire } from "./table-wire.ts";

/*
 * Indexes as unchanged clients meet them: the official ones, over films. The real ones are used if their folder next
 * to this repository exists.
 */

const REAL = fileURLToPath(new URL("../../../shared/data/movies", import.meta.url));
const KEY = Buffer.from(DEVELOPMENT_ACCOUNT.keys[0]!).toString("base64");
const ACCOUNT = DEVELOPMENT_ACCOUNT.name;

interface Film {
  readonly Title: string;
  readonly Year: number;
}

describe("Indexes that the server keeps, over films", () => {
  let server: LocalServer;
  let wire: TableWire;
  const films = existsSync(REAL) ? readMovies(REAL) : makeUpMovies(500, seededRandom(3));
  const cost = { entitiesRead: 0, plan: "" };

  before(async () => {
    server = await startLocalServer();
    wire = new TableWire({ url: `${server.url}/${ACCOUNT}`, account: ACCOUNT, key: KEY });
    const table = client("Films");
    await table.createTable();
    for (const batch of batchesOf(films)) await table.submitTransaction(batch);
  });
  after(async () => {
    wire.close();
    await server.close();
  });

  it("give the same answers for a hundredth of the reads, to the clients for JavaScript and Python", async (t) => {
    const python = pythonWithTables();
    if (!python) {
      t.diagnostic(
        "No Python has azure-data-tables here, so only the client for JavaScript was tried",
      );
    }
    const film = films[Math.floor(films.length / 2)]!;
    const filters = [
      odata`Year eq ${film.year}`,
      odata`Title eq ${film.title}`,
      odata`Title ge ${film.title.slice(0, 3)} and Title lt ${`${film.title.slice(0, 3)}~`}`,
      odata`Year eq ${film.year} and Title gt ${film.title}`,
      odata`Title eq ${film.title} or Title eq ${films[0]!.title}`,
    ];
    const scanned: Awaited<ReturnType<typeof query>>[] = [];
    for (const filter of filters) {
      scanned.push(await query(filter));
      assert.match(cost.plan, /^table scan/);
      assert.equal(cost.entitiesRead, films.length);
    }
    const answersInPython = async (plan: RegExp) => {
      if (!python) return;
      const asked = { url: `${server.url}/${ACCOUNT}`, account: ACCOUNT, key: KEY, filters };
      const found = await queryWithPython(python, { ...asked, table: "Films" });
      for (const answer of found) assert.match(answer.plan, plan);
      assert.deepEqual(
        found.map(({ rows }) => rows),
        scanned,
      );
    };
    await answersInPython(/^table scan/);
    await declare("FilmsByYear", "Year,Title");
    await declare("FilmsByTitle", "Title");
    for (const [at, filter] of filters.entries()) {
      assert.deepEqual(await query(filter), scanned[at], filter);
      assert.match(cost.plan, /^index (runs|collect) FilmsBy/);
      assert.equal(
        cost.entitiesRead,
        scanned[at]!.length,
        `Only what matches is fetched: ${cost.plan}`,
      );
    }
    await answersInPython(/^index (runs|collect) FilmsBy/);
  });

  it("are tables that list films in their own order", async () => {
    const rows = await all(client("FilmsByYear").listEntities<Film & { basePK: string }>());
    const years = rows.map(({ Year }) => Year);
    assert.equal(rows.length, films.length);
    assert.deepEqual(
      years,
      years.toSorted((a, b) => a - b),
    );
    const { partitionKey, rowKey, basePK } = rows[0]!;
    const one = await client("FilmsByYear").getEntity<Film>(partitionKey!, rowKey!);
    assert.equal(one.Year, years[0]);
    assert.equal(
      films.some(({ genres }) => keyOf(genres[0] ?? "none") === basePK),
      true,
    );
  });

  it("follow every write in its own transaction", async () => {
    const table = client("Films");
    const changed = { partitionKey: "new", rowKey: "1", Title: "Zz new film", Year: 2031 };
    await table.createEntity(changed);
    assert.equal((await query("Year eq 2031")).length, 1);
    await table.updateEntity({ partitionKey: "new", rowKey: "1", Year: 2032 }, "Merge");
    assert.equal((await query("Year eq 2031")).length, 0);
    assert.deepEqual(
      (await query("Title eq 'Zz new film'")).map(({ Year }) => Year),
      [2032],
    );
    await table.deleteEntity("new", "1");
    assert.equal((await query("Year eq 2032")).length, 0);
  });

  it("refuse to be written, deleted or created, and say what to do", async () => {
    const index = client("FilmsByYear");
    const row = { partitionKey: "a", rowKey: "b" };
    for (const attempt of [
      () => index.createEntity(row),
      () => index.upsertEntity(row, "Replace"),
      () => index.upsertEntity(row, "Merge"),
      () => index.updateEntity(row, "Merge"),
      () => index.deleteEntity("a", "b"),
      () => index.submitTransaction([["create", row]]),
      () => index.deleteTable(),
    ]) {
      await assert.rejects(attempt, (error) => {
        assert.ok(error instanceof RestError);
        assert.equal(error.statusCode, 403);
        assert.match(error.message, /kept by the server.*rowhouse index drop/s);
        return true;
      });
    }
    const created = await wire.send("POST", "/Tables", { body: { TableName: "FilmsByYear" } });
    assert.equal(created.status, 409);
  });

  it("are listed with the tables, and are opened by a signature for them alone", async () => {
    const service = new TableServiceClient(`${server.url}/${ACCOUNT}`, credential(), INSECURE);
    const names = (await all(service.listTables())).map(({ name }) => name);
    assert.deepEqual(names, ["Films", "FilmsByTitle", "FilmsByYear"]);
    const expiresOn = new Date(Date.now() + 3_600_000);
    const sas = (table: string) =>
      generateTableSas(table, credential(), { expiresOn, permissions: { query: true } });
    const ask = (table: string, token: string) =>
      wire.send("GET", `/${table}()?$top=1`, { as: { kind: "sas", token } });
    assert.equal((await ask("FilmsByYear", sas("FilmsByYear"))).status, 200);
    assert.equal((await ask("FilmsByYear", sas("Films"))).status, 403);
    const narrow = generateTableSas("Films", credential(), {
      expiresOn,
      permissions: { query: true },
      startPartitionKey: "D",
      endPartitionKey: "E",
    });
    const { year } = films.find(({ genres }) => (genres[0] ?? "") > "E")!;
    const answer = await wire.send(
      "GET",
      `/Films()?$filter=${encodeURIComponent(`Year eq ${year}`)}`,
      {
        as: { kind: "sas", token: narrow },
      },
    );
    const { value } = answer.json() as { value: { PartitionKey: string }[] };
    assert.match(answer.header("x-rowhouse-plan") ?? "", /^index /);
    assert.deepEqual(
      value.filter(({ PartitionKey }) => PartitionKey < "D" || PartitionKey > "E"),
      [],
    );
  });

  it("keep their table's policies, and go with their table", async () => {
    const table = client("Films");
    await table.setAccessPolicy([{ id: "reader", accessPolicy: { permission: "r" } }]);
    assert.match(
      JSON.stringify((await wire.send("GET", "/_rowhouse/indexes")).json()),
      /FilmsByTitle.*ready/,
    );
    await table.deleteTable();
    assert.deepEqual((await wire.send("GET", "/_rowhouse/indexes")).json(), { indexes: [] });
    assert.equal((await wire.send("GET", "/Tables('FilmsByYear')")).status, 404);
  });

  async function declare(name: string, key: string): Promise<void> {
    const body = { table: "Films", key, rate: 0 };
    const answer = await wire.send("PUT", `/_rowhouse/indexes/${name}`, { body });
    assert.equal(answer.status, 201, String(answer));
    for (;;) {
      const shown = await wire.send("GET", `/_rowhouse/indexes/${name}`);
      const { state } = shown.json() as { state: string };
      if (state === "ready") return;
      assert.equal(state, "building");
    }
  }

  function client(table: string): TableClient {
    const made = new TableClient(`${server.url}/${ACCOUNT}`, table, credential(), INSECURE);
    made.pipeline.addPolicy({
      name: "cost",
      async sendRequest(request, next) {
        const response = await next(request);
        const read = /entities-read=(\d+)/.exec(response.headers.get("x-rowhouse-cost") ?? "");
        cost.entitiesRead += Number(read?.[1] ?? 0);
        cost.plan = response.headers.get("x-rowhouse-plan") ?? "";
        return response;
      },
    });
    return made;
  }

  async function query(filter: string) {
    cost.entitiesRead = 0;
    const pages = client("Films").listEntities<Film>({ queryOptions: { filter } });
    return (await all(pages)).map(({ partitionKey, rowKey, Title, Year, etag }) => ({
      partitionKey,
      rowKey,
      Title,
      Year,
      etag,
    }));
  }
});

const INSECURE = { allowInsecureConnection: true, retryOptions: { maxRetries: 0 } };

function credential(): AzureNamedKeyCredential {
  return new AzureNamedKeyCredential(ACCOUNT, KEY);
}

async function all<T>(pages: AsyncIterable<T>): Promise<T[]> {
  const found: T[] = [];
  for await (const each of pages) found.push(each);
  return found;
}

/** Films by genre, a hundred to a transaction. */
function batchesOf(films: readonly Movie[]): TransactionAction[][] {
  const batches = new Map<string, TransactionAction[][]>();
  for (const [at, { title, year, genres }] of films.entries()) {
    const partitionKey = keyOf(genres[0] ?? "none");
    const row = { partitionKey, rowKey: String(at), Title: title, Year: year };
    const own = batches.get(partitionKey) ?? [[]];
    batches.set(partitionKey, own);
    if (own.at(-1)!.length === 100) own.push([]);
    own.at(-1)!.push(["create", row]);
  }
  return [...batches.values()].flat();
}

/** Keys must not contain slashes, backslashes, number signs, question marks or control characters. */
function keyOf(text: string): string {
  return text.replace(/[/\\#?\p{Cc}\p{Cs}]/gu, "-");
}
