import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import type { Key } from "../engine.ts";
import { openPostgresEngine, type PostgresEngine } from "./postgres-engine.ts";
import { Relay } from "./test-relay.ts";
import { runAt, type TestServer, testServer } from "./test-server.ts";

const COUNT = 24;
const VALUE_BYTES = 1_000_000;

describe("A get of many keys from PostgreSQL", () => {
  let server: TestServer;
  let url: string;
  let engine: PostgresEngine;
  let relay: Relay;
  /** Bytes of rows that the server has sent. */
  let sentBytes = 0;

  before(async () => {
    server = await testServer();
    url = await server.createDatabase();
    relay = await Relay.open(url);
    relay.onAnswer = (code, body) => {
      if (code === "D") sentBytes += body.length;
      return "pass";
    };
    engine = await openPostgresEngine({ checksums: false, allowUnsafe: true, url: relay.url });
    const value = `decode(repeat('ab', ${VALUE_BYTES}), 'hex')`;
    await runAt(url, [
      `INSERT INTO rh_kv SELECT 'one', ('k' || (100 + i))::bytea, 1, ${value} FROM generate_series(1, ${COUNT}) i`,
      `INSERT INTO rh_kv SELECT ('p' || (100 + i))::bytea, 'k', 1, ${value} FROM generate_series(1, ${COUNT}) i`,
    ]);
  });
  after(async () => {
    await engine.close();
    await relay.close();
    await server.dropDatabase(url);
    await server.stop();
  });

  const ofOnePartition = keysOf((number) => ["one", `k${number}`]);
  const ofMany = keysOf((number) => [`p${number}`, "k"]);

  it("transfers only the values within bytesMax, and the one that exceeds it", async () => {
    for (const keys of [ofOnePartition, ofMany]) {
      sentBytes = 0;
      assert.equal((await engine.get(keys, 2 * VALUE_BYTES + 1)).length, 3);
      assert.ok(sentBytes < 3 * VALUE_BYTES + 10_000, `${sentBytes} bytes were sent.`);
      assert.equal((await engine.get(keys)).length, COUNT);
    }
  });
});

function keysOf(at: (number: number) => readonly [string, string]): Key[] {
  return Array.from({ length: COUNT }, (_, index) => {
    const [partition, sort] = at(101 + index);
    return { partition: Buffer.from(partition), sort: Buffer.from(sort) };
  });
}
