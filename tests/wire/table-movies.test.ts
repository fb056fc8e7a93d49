import assert from "node:assert/strict";
import { existsSync, mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, it } from "node:test";
import { fileURLToPath } from "node:url";
import { odata, TableClient, type TransactionAction } from "@azure/data-tables";
import { type RowhouseProcess, startRowhouse, withFolder } from "../support/rowhouse-process.ts";
import { seededRandom } from "../support/seeded-random.ts";
import { type Movie, makeUpMovies, readMovies } from "./movies.ts";
import { TableWire } from "./table-wire.ts";

/*
 * A job on a data set: films by genre and by actor are imported, queried and updated, and the server is killed
 * in between. Made-up films are always used, and the real ones too if their folder next to this repository
 * exists.
 */

const REAL = fileURLToPath(new URL("../../../shared/data/movies", import.meta.url));
const KEY =
  "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw==";
const CONNECTIONS = 32;

describe("Films", () => {
  it("are read from files of every supported shape", async () => {
    const movies = makeUpMovies(40, seededRandom(1));
    await withFolder(async (folder) => {
      mkdirSync(join(folder, "more"));
      writeFileSync(join(folder, "README.md"), "Nothing to read here.");
      writeFileSync(join(folder, "a.json"), JSON.stringify(movies.slice(0, 20)));
      writeFileSync(
        join(folder, "b.jsonl"),
        movies
          .slice(20, 30)
          .map((movie) => JSON.stringify(movie))
          .join("\n"),
      );
      const others = movies.slice(30).map(({ title, year, cast, genres }) => ({
        name: title,
        release_date: `${year}-05-06`,
        actors: cast.map((name) => ({ name })),
        genre: genres.join(", "),
      }));
      writeFileSync(join(folder, "more", "c.json"), JSON.stringify({ page: 1, results: others }));
      assert.deepEqual(readMovies(folder), movies);
    });
  });

  it("that are made up are imported by genre and by actor, queried, updated, and kept when the server is killed", async () => {
    await work(makeUpMovies(120, seededRandom(2)));
  });

  if (existsSync(REAL)) {
    it(`of ${REAL} are imported by genre and by actor, queried, updated, and kept when the server is killed`, async () => {
      await work(readMovies(REAL));
    });
  }
});

interface Row {
  readonly PartitionKey: string;
  readonly RowKey: string;
  readonly Title: string;
  readonly Year: number;
}

async function work(movies: readonly Movie[]): Promise<void> {
  const byGenre = rowsOf(movies, ({ genres }) => genres);
  const byActor = rowsOf(movies, ({ cast }) => cast);
  await withFolder(async (folder) => {
    let server = await startRowhouse(folder, ["--silent"]);
    await importByTransaction(client(server, "MoviesByGenre"), byGenre);
    await importOneByOne(server, "MoviesByActor", byActor);
    await check(server, byGenre, byActor);

    // Killed while films are being updated: every acknowledged update must still be there.
    const busiest = largestPartition(byActor);
    const updated = await updateUntilKilled(server, busiest);
    server = await startRowhouse(folder, ["--silent"]);
    const actors = client(server, "MoviesByActor");
    for (const { PartitionKey, RowKey } of busiest) {
      const { Rating } = await actors.getEntity<{ Rating?: number }>(PartitionKey, RowKey);
      const acknowledged = updated.get(RowKey) ?? 0;
      assert.equal(
        (Rating ?? 0) >= acknowledged,
        true,
        `${RowKey}: ${Rating}, ${acknowledged} was acknowledged`,
      );
    }
    await check(server, byGenre, byActor);
    assert.equal(await server.stop(), 0);
  });
}

/** A row for each name that a film is stored under, sorted as a table sorts them. */
function rowsOf(movies: readonly Movie[], names: (movie: Movie) => readonly string[]): Row[] {
  const rows = movies.flatMap((movie, i) =>
    names(movie).map((name) => ({
      PartitionKey: keyOf(name),
      // Remakes sometimes share title and year.
      RowKey:
        keyOf(`${String(movie.year).padStart(4, "0")} ${movie.title}`).slice(0, 500) + ` ${i}`,
      Title: movie.title,
      Year: movie.year,
    })),
  );
  return rows.sort(
    (a, b) => compare(a.PartitionKey, b.PartitionKey) || compare(a.RowKey, b.RowKey),
  );
}

/** Keys must not contain slashes, backslashes, number signs, question marks or control characters. */
function keyOf(text: string): string {
  return text.replace(/[/\\#?\p{Cc}\p{Cs}]/gu, "-").slice(0, 500);
}

function client({ connectionString }: RowhouseProcess, table: string): TableClient {
  return TableClient.fromConnectionString(connectionString, table, {
    allowInsecureConnection: true,
    retryOptions: { maxRetries: 0 },
  });
}

/** A genre has many films, so a hundred are sent at once. */
async function importByTransaction(table: TableClient, rows: readonly Row[]): Promise<void> {
  await table.createTable();
  const batches: TransactionAction[][] = [];
  for (const { PartitionKey, RowKey, ...rest } of rows) {
    const last = batches.at(-1);
    const action: TransactionAction = [
      "create",
      { partitionKey: PartitionKey, rowKey: RowKey, ...rest },
    ];
    if (last && last.length < 100 && last[0]![1].partitionKey === PartitionKey) last.push(action);
    else batches.push([action]);
  }
  await atOnce(8, async () => {
    for (let batch = batches.pop(); batch; batch = batches.pop())
      await table.submitTransaction(batch);
  });
}

/** Most actors have few films, so they are sent one by one, over many connections. */
async function importOneByOne(
  server: RowhouseProcess,
  table: string,
  rows: readonly Row[],
): Promise<void> {
  const target = {
    url: `${server.tableUrl}/devstoreaccount1`,
    account: "devstoreaccount1",
    key: KEY,
  };
  const left = [...rows];
  const create = new TableWire(target);
  assert.equal((await create.send("POST", "/Tables", { body: { TableName: table } })).status, 201);
  create.close();
  await atOnce(CONNECTIONS, async () => {
    const wire = new TableWire(target);
    while (left.length > 0) {
      const requests = left
        .splice(-50)
        .map((body) =>
          wire.bytes("POST", `/${table}`, { body, headers: { Prefer: "return-no-content" } }),
        );
      for (const answer of await wire.pipeline(requests))
        assert.equal(answer.status, 204, String(answer));
    }
    wire.close();
  });
}

/** Runs each kind of query, and compares the results with the films. */
async function check(
  server: RowhouseProcess,
  byGenre: readonly Row[],
  byActor: readonly Row[],
): Promise<void> {
  for (const [name, rows] of [
    ["MoviesByGenre", byGenre],
    ["MoviesByActor", byActor],
  ] as const) {
    const table = client(server, name);
    const partition = largestPartition(rows);
    const { PartitionKey } = partition[0]!;

    const point = partition[Math.floor(partition.length / 2)]!;
    const one = await table.getEntity<{ Title: string }>(PartitionKey, point.RowKey);
    assert.equal(one.Title, point.Title);

    const [from, to] = ["1950", "1990"];
    const range = odata`PartitionKey eq ${PartitionKey} and RowKey ge ${from} and RowKey lt ${to}`;
    const inRange = partition.filter(({ RowKey }) => RowKey >= from && RowKey < to);
    assert.deepEqual(await keysOf(table, range), inRange.map(keyText));

    const scan = odata`PartitionKey eq ${PartitionKey} and Year ge ${1980}`;
    assert.deepEqual(
      await keysOf(table, scan),
      partition.filter(({ Year }) => Year >= 1980).map(keyText),
    );

    const others = [...new Set(rows.map((row) => row.PartitionKey))].slice(0, 3);
    const either = others.map((key) => odata`PartitionKey eq ${key}`).join(" or ");
    assert.deepEqual(
      await keysOf(table, either),
      rows.filter((row) => others.includes(row.PartitionKey)).map(keyText),
    );

    assert.deepEqual(await keysOf(table), rows.map(keyText));
  }
}

async function keysOf(table: TableClient, filter?: string): Promise<string[]> {
  const keys: string[] = [];
  const queryOptions = { select: ["PartitionKey", "RowKey"], ...(filter && { filter }) };
  for await (const { partitionKey, rowKey } of table.listEntities({ queryOptions })) {
    keys.push(`${partitionKey}|${rowKey}`);
  }
  return keys;
}

function keyText({ PartitionKey, RowKey }: Row): string {
  return `${PartitionKey}|${RowKey}`;
}

/** Keeps rating films until the server is gone; returns the last acknowledged rating of each. */
async function updateUntilKilled(
  server: RowhouseProcess,
  rows: readonly Row[],
): Promise<Map<string, number>> {
  const table = client(server, "MoviesByActor");
  const acknowledged = new Map<string, number>();
  let updates = 0;
  const update = async (own: readonly Row[]) => {
    for (let rating = 1; own.length > 0; rating++) {
      for (const { PartitionKey, RowKey } of own) {
        try {
          await table.updateEntity(
            { partitionKey: PartitionKey, rowKey: RowKey, Rating: rating },
            "Merge",
          );
        } catch {
          return;
        }
        acknowledged.set(RowKey, rating);
        updates++;
      }
    }
  };
  const workers = [0, 1, 2, 3].map((worker) =>
    update(rows.filter((_, i) => i % 4 === worker)).catch(() => {}),
  );
  while (updates < 100) await new Promise((resolve) => setImmediate(resolve));
  await server.kill();
  await Promise.all(workers);
  return acknowledged;
}

function largestPartition(rows: readonly Row[]): Row[] {
  const partitions = new Map<string, Row[]>();
  for (const row of rows) {
    const own = partitions.get(row.PartitionKey);
    if (own) own.push(row);
    else partitions.set(row.PartitionKey, [row]);
  }
  return [...partitions.values()].sort((a, b) => b.length - a.length)[0]!;
}

async function atOnce(count: number, work: () => Promise<void>): Promise<void> {
  await Promise.all(Array.from({ length: count }, work));
}

/** By UTF-16 code units, which is how JavaScript compares and tables sort. */
function compare(a: string, b: string): number {
  return a < b ? -1 : a > b ? 1 : 0;
}
