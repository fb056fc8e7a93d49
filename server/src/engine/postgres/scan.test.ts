import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import type { KeyRange, ScanEnd, ScanHints, Visit } from "../engine.ts";
import { after as keyAfter, partitionRange } from "../key-codec.ts";
import { parsePostgresUrl } from "./config.ts";
import { Connector } from "./connector.ts";
import { openPostgresEngine, type PostgresEngine } from "./postgres-engine.ts";
import { isInOnePartition } from "./scan.ts";
import { Scans } from "./scans.ts";
import { SessionPool } from "./session-pool.ts";
import { sessionSettings } from "./session-settings.ts";
import { MARK_ROWS } from "./statements.ts";
import { Relay } from "./test-relay.ts";
import { runAt, type TestServer, testServer } from "./test-server.ts";
import { commit, keyOf, textOf } from "./test-workloads.ts";

describe("A scan of PostgreSQL", () => {
  let server: TestServer;
  let url: string;
  let engine: PostgresEngine;
  let relay: Relay;
  /** Rows and their bytes that the server has sent. */
  const sent = { rows: 0, bytes: 0 };

  before(async () => {
    server = await testServer();
    url = await server.createDatabase();
    relay = await Relay.open(url);
    relay.onAnswer = (code, body) => {
      // Not the rows of a greeting: another connection may open at the same time.
      if (code === "D" && /^(small)?.{0,4}k1/s.test(body.toString("latin1", 6, 17))) {
        sent.rows++;
        sent.bytes += body.length;
      }
      return "pass";
    };
    engine = await openPostgresEngine({ checksums: false, allowUnsafe: true, url: relay.url });
    await runAt(url, [
      "INSERT INTO rh_kv SELECT 'small', ('k' || (100000 + i))::bytea, 1, 'v' FROM generate_series(1, 20000) i",
      "INSERT INTO rh_kv SELECT 'large', ('k' || (100 + i))::bytea, 1, decode(repeat('ab', 1000000), 'hex') FROM generate_series(1, 24) i",
      "INSERT INTO rh_kv SELECT ('many' || (1000 + i))::bytea, 'k', 1, 'v' FROM generate_series(1, 1500) i",
    ]);
  });
  after(async () => {
    await engine.close();
    await relay.close();
    await server.dropDatabase(url);
    await server.stop();
  });

  async function count(range: KeyRange, hints?: ScanHints, stopAt = Number.POSITIVE_INFINITY) {
    let visited = 0;
    const end = await engine.scan(range, () => ++visited < stopAt, hints);
    return { visited, end };
  }

  /** In as many calls as needed: each ends when its snapshot is too old, which on a busy machine is soon. */
  async function countAll(range: KeyRange, hints?: ScanHints) {
    let visited = 0;
    for (let rest = range; ; ) {
      const { visited: more, end } = await count(rest, hints);
      visited += more;
      if (typeof end === "string") return visited;
      rest = { start: end.resumeAt, end: range.end };
    }
  }

  const small = partitionRange(Buffer.from("small"));
  const large = partitionRange(Buffer.from("large"));

  it("visits thousands of small entries in one call, hence in one snapshot", async () => {
    // Not all of them: on a busy machine they may take longer than a snapshot lives.
    const many = { start: small.start, end: { ...small.start, sort: Buffer.from("k105001") } };
    assert.deepEqual(await count(many), { visited: 5_000, end: "complete" });
  });

  it("fetches no more than the expected entries when those suffice", async () => {
    sent.rows = 0;
    await count(small, { entriesExpected: 10 }, 10);
    assert.equal(sent.rows, 10);
    sent.rows = 0;
    await count(small, { entriesExpected: 1000 }, 1000);
    assert.equal(sent.rows, 1000);
  });

  it("continues beyond the expected entries when visit does", async () => {
    assert.equal(await countAll(small, { entriesExpected: 10 }), 20_000);
  });

  it("does not fetch many large entries when visit stops at the first", async () => {
    // The first scan learns that rows are large here; from then on requests are small.
    await count(large);
    await count(large);
    sent.bytes = 0;
    await count(large, { entriesExpected: 1000 }, 1);
    assert.ok(sent.bytes < 8_000_000, `${sent.bytes} bytes for one entry of 1,000,000.`);
  });

  it("ends early with the key to resume at when visit is slow", async () => {
    let visited = 0;
    const until = performance.now() + 2_100;
    const end = await engine.scan(small, () => {
      visited++;
      // The first chunk takes all the time that a snapshot may live.
      while (visited === 1 && performance.now() < until);
      return true;
    });
    assert.ok(typeof end !== "string" && visited > 0 && visited < 20_000);
    const rest = await countAll({ start: end.resumeAt, end: small.end });
    assert.equal(visited + rest, 20_000);
  });

  it("continues where it was when its connection breaks, without repeating an entry", async () => {
    const seen: string[] = [];
    const breaking: Promise<unknown>[] = [];
    for (let range = small; ; ) {
      const end: ScanEnd = await engine.scan(range, (entry) => {
        seen.push(Buffer.from(entry.key.sort).toString());
        if (seen.length % 7000 === 0) {
          breaking.push(
            runAt(url, [
              "SELECT pg_terminate_backend(pid, 60000) FROM pg_stat_activity WHERE application_name = 'rowhouse' AND datname = current_database()",
            ]),
          );
        }
        return true;
      });
      if (typeof end === "string") break;
      range = { start: end.resumeAt, end: small.end };
    }
    // A cut that came late would break a connection of the next test.
    await Promise.all(breaking);
    assert.equal(seen.length, 20_000);
    assert.equal(new Set(seen).size, 20_000);
  });

  /** Ranges of "small", each of `length` entries from a number on. */
  const partsOfSmall = (length: number, ...from: number[]): KeyRange[] =>
    from.map((at) => ({
      start: { ...small.start, sort: Buffer.from(`k${at}`) },
      end: { ...small.start, sort: Buffer.from(`k${at + length}`) },
    }));

  it("reads several ranges of a partition in order, including empty ones", async () => {
    const ranges = partsOfSmall(200, 100_001, 200_000, 101_001, 101_201, 119_999);
    const seen: number[] = [];
    const end = await engine.scanRanges(ranges, ({ key }) => {
      return seen.push(Number(key.sort.toString().slice(1))) > 0;
    });
    assert.equal(end, "complete");
    const numbers = (from: number, count: number) =>
      Array.from({ length: count }, (_, index) => from + index);
    assert.deepEqual(seen, [...numbers(100_001, 200), ...numbers(101_001, 400), 119_999, 120_000]);
  });

  it("reads several ranges of a partition in one snapshot", async () => {
    const keys = Array.from({ length: 20 }, (_, index) => keyOf("together", `${100 + index}`));
    const ranges = keys.map((key) => ({ start: key, end: keyAfter(key) }));
    const write = (text: string) => commit(engine, { puts: keys.map((key) => [key, text]) });
    await write("first");
    let isOver = false;
    const writing = (async () => {
      for (let round = 0; !isOver; round++) await write(`${round}`);
    })();
    for (let round = 0; round < 30; round++) {
      const seen: (string | undefined)[] = [];
      await engine.scanRanges(ranges, (entry) => seen.push(textOf(entry)) > 0);
      assert.equal(seen.length, keys.length);
      assert.equal(new Set(seen).size, 1, `Several snapshots: ${seen}.`);
    }
    isOver = true;
    await writing;
  });

  it("leaves no transaction open when it stops among several ranges", async () => {
    let visited = 0;
    const ranges = partsOfSmall(10, 100_001, 100_101, 100_201);
    assert.equal(await engine.scanRanges(ranges, () => ++visited < 15), "stopped");
    assert.equal(visited, 15);
    // Over the same connection, behind the rollback of the transaction.
    assert.deepEqual(await count(ranges[0]!), { visited: 10, end: "complete" });
    const open =
      "SELECT count(*)::int FROM pg_stat_activity WHERE datname = current_database() AND state LIKE 'idle in%'";
    assert.deepEqual(await runAt(url, [open]), [[0]]);
  });

  it("ends early among several ranges, too, when visit is slow", async () => {
    const ranges = partsOfSmall(10, 100_001, 100_101, 100_201);
    let visited = 0;
    const until = performance.now() + 2_100;
    const end = await engine.scanRanges(ranges, () => {
      visited++;
      while (visited === 1 && performance.now() < until);
      return true;
    });
    assert.deepEqual([visited, end], [10, { resumeAt: ranges[1]!.start }]);
  });

  it("does not fetch unwanted entries, but learns how far the server has read", async () => {
    sent.rows = 0;
    sent.bytes = 0;
    let [visited, leftOut] = [0, 0];
    // Not all of them either, and past the end of their partition, where the engine leaves rows out.
    const range = {
      start: { ...small.start, sort: Buffer.from("k115001") },
      end: { partition: Buffer.from("smalm"), sort: small.start.sort },
    };
    const end = await engine.scan(range, () => ++visited > 0, {
      wanted: {
        bounds: [Buffer.from("k115777"), Buffer.from("k115779")],
        leftOut: (count) => {
          leftOut += count;
          return true;
        },
      },
    });
    assert.equal(end, "complete");
    assert.deepEqual([visited, leftOut], [2, 4_998]);
    assert.equal(sent.rows, 2 + Math.ceil(5_000 / MARK_ROWS));
  });

  it("queries shards page by page, and counts what they leave out", async () => {
    const config = parsePostgresUrl(url);
    const settings = sessionSettings(10_000, "postgres");
    const connector = new Connector(config, {
      preparedStatements: true,
      allowUnsafe: true,
      settings,
    });
    const pool = new SessionPool({ sessionsMax: 1, connect: () => connector.connect() });
    const scans = new Scans({ pool, dialect: "citus", timeoutMs: 10_000 });
    const scanAll = async (range: KeyRange, hints: ScanHints) => {
      const seen: string[] = [];
      const visit: Visit = ({ key }) => {
        seen.push(Buffer.from(key.partition).toString());
        return true;
      };
      for (let rest = range; ; ) {
        const end = await scans.scan([rest], visit, hints);
        if (typeof end === "string") return seen;
        rest = { start: end.resumeAt, end: range.end };
      }
    };
    const parts = partsOfSmall(10, 100_001, 100_101);
    // No shared snapshot of theirs was tested.
    const afterFirst = await scans.scan(parts, () => true, undefined);
    assert.deepEqual(afterFirst, { resumeAt: parts[1]!.start });
    const start = { partition: Buffer.from("many"), sort: Buffer.alloc(0) };
    const end = { partition: Buffer.from("many2401"), sort: Buffer.alloc(0) };
    const expected = Array.from({ length: 1500 }, (_, index) => `many${1001 + index}`);
    for (const entriesExpected of [50, 150, 1000, 5000]) {
      const open = await scanAll({ start }, { entriesExpected });
      assert.deepEqual(open.slice(0, 1500), expected);
      const closed = await scanAll({ start, end }, { entriesExpected });
      assert.deepEqual(closed, expected.slice(0, 1400));
      // What is remembered of the pages of one scan serves one that starts anywhere.
      const later = { start: { ...start, partition: Buffer.from("many1700") }, end };
      assert.deepEqual(await scanAll(later, { entriesExpected }), expected.slice(699, 1400));
    }
    let leftOut = 0;
    const count = (more: number) => {
      leftOut += more;
      return true;
    };
    const bounds = ["k119", "k120"].map((text) => Buffer.from(text));
    const all = { start: keyOf("a", ""), end: keyOf("t", "") };
    const found = await scanAll(all, { wanted: { bounds, leftOut: count } });
    assert.deepEqual(found, ["large", ...new Array(1_000).fill("small")]);
    assert.equal(leftOut, 23 + 1_500 + 19_000);
    pool.close();
  });
});

describe("isInOnePartition", () => {
  const at = (partition: string, sort = "") => ({
    partition: Buffer.from(partition, "latin1"),
    sort: Buffer.from(sort, "latin1"),
  });

  it("is true for ranges within one partition", () => {
    assert.equal(isInOnePartition({ start: at("p", "a"), end: at("p", "z") }), true);
    assert.equal(isInOnePartition({ start: at("p", "a"), end: at("p\0") }), true);
    assert.equal(isInOnePartition({ start: at(""), end: at("\0") }), true);
  });

  it("is false for ranges that extend beyond one partition", () => {
    assert.equal(isInOnePartition({ start: at("p") }), false);
    assert.equal(isInOnePartition({ start: at("p"), end: at("q") }), false);
    assert.equal(isInOnePartition({ start: at("p"), end: at("p\0", "a") }), false);
    assert.equal(isInOnePartition({ start: at("p"), end: at("p\x01") }), false);
    assert.equal(isInOnePartition({ start: at("p"), end: at("q\0") }), false);
  });
});
