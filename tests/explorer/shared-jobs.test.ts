import assert from "node:assert/strict";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, describe, it } from "node:test";
import type { Job } from "@rowhouse/server/explorer/bulk-jobs";
import { createTestDatabase } from "../support/database-engine.ts";
import { type RowhouseProcess, startRowhouse } from "../support/rowhouse-process.ts";
import { OWNER } from "./explorer-server.ts";
import { clientOf } from "./films.ts";

/** More than a slice of a second changes. */
const TOTAL = 20_000;
const PARTITIONS = 40;

describe("A change in bulk where two servers share a data folder", () => {
  const folder = mkdtempSync(join(tmpdir(), "rowhouse-"));
  after(() => rmSync(folder, { recursive: true }));
  goesOnElsewhere(() => startRowhouse(folder));
});

describe("A change in bulk where two front ends share a database", () => {
  const database = createTestDatabase();
  after(async () => (await database).drop());
  goesOnElsewhere(async () =>
    startRowhouse("", ["--engine", (await database).url, "--allowUnsafeEngine"]),
  );
});

describe("A change in bulk of a server with two workers", () => {
  const folder = mkdtempSync(join(tmpdir(), "rowhouse-"));
  let server: RowhouseProcess;
  before(async () => {
    server = await startRowhouse(folder, ["--workers", "2"]);
  });
  after(async () => {
    await server.stop();
    rmSync(folder, { recursive: true });
  });

  it("is seen by both, and goes on in the other when the worker that runs it is killed", async () => {
    await fill(server);
    const { say, job, begin } = await open(server);
    const { id } = await begin();
    // Each connection is dealt to the next worker: both show it.
    for (let i = 0; i < 4; i++) assert.equal((await job()).id, id);
    const [worker] = server.workerPids();
    process.kill(worker!, "SIGKILL");
    // Until another is in its place.
    while (server.workerPids().includes(worker!) || server.workerPids().length < 2);
    // Whether it ran there or not: paused and resumed, it is run by one that is there.
    await say(id, "pause");
    await say(id, "resume");
    assert.equal((await ended(job)).state, "done");
    await assertAllMarked(server);
  });
});

/** @param start one more server of the same data */
function goesOnElsewhere(start: () => Promise<RowhouseProcess>): void {
  let first: RowhouseProcess;
  let second: RowhouseProcess;
  before(async () => {
    first = await start();
    second = await start();
  });
  after(async () => {
    await first.kill();
    await second.stop();
  });

  it("is watched and paused through the other, and goes on there when the one that ran it is killed", async () => {
    await fill(first);
    const [here, there] = [await open(first), await open(second)];
    const { id } = await here.begin();
    assert.equal((await there.job()).state, "running");
    assert.equal((await there.say(id, "pause")).state, "paused");
    assert.equal((await here.job()).state, "paused");
    assert.equal((await here.say(id, "resume")).state, "running");
    assert.equal((await there.job()).state, "running");
    await first.kill();
    // Alone in a data folder it is known that nobody works on it; in a database, only after half a minute.
    const left = await there.job();
    if (left.state === "running") await there.say(id, "pause");
    else assert.equal(left.state, "stopped");
    assert.equal((await there.say(id, "resume")).state, "running");
    assert.equal((await ended(there.job)).state, "done");
    await assertAllMarked(second);
  });
}

async function fill({ connectionString }: RowhouseProcess): Promise<void> {
  const table = clientOf(connectionString, "Films");
  await table.createTable();
  const partition = async (p: number) => {
    for (let from = 0; from < TOTAL / PARTITIONS; from += 100)
      await table.submitTransaction(
        Array.from({ length: 100 }, (_, i) => [
          "create",
          { partitionKey: `p${p}`, rowKey: `${from + i}`.padStart(4, "0") },
        ]),
      );
  };
  const left = Array.from({ length: PARTITIONS }, (_, p) => p);
  const work = async () => {
    for (let p = left.pop(); p !== undefined; p = left.pop()) await partition(p);
  };
  await Promise.all(Array.from({ length: 8 }, work));
}

async function open({ tableUrl }: RowhouseProcess) {
  const api = async <T>(path: string, token: string, body?: object): Promise<T> => {
    const answer = await fetch(`${tableUrl}/_rowhouse/api/v1/${path}`, {
      // Each on a connection of its own, which another worker may be given.
      headers: { Authorization: `Bearer ${token}`, Connection: "close" },
      ...(body && { method: "POST", body: JSON.stringify(body) }),
    });
    assert.ok(answer.ok, `${path}: ${answer.status}`);
    return (await answer.json()) as T;
  };
  const { token } = await api<{ token: string }>("session", "", OWNER);
  const merge = '{"mark":true}';
  const wanted = { table: "Films", filter: "", merge, isDryRun: false, expected: TOTAL };
  return {
    begin: () => api<Job>("jobs", token, wanted),
    say: (id: string, what: string) => api<Job>(`jobs/${id}`, token, { do: what }),
    job: async () => (await api<{ jobs: Job[] }>("jobs", token)).jobs[0]!,
  };
}

async function ended(look: () => Promise<Job>): Promise<Job> {
  for (;;) {
    const job = await look();
    if (job.state !== "running") return job;
  }
}

async function assertAllMarked({ connectionString }: RowhouseProcess): Promise<void> {
  let marked = 0;
  for await (const { mark } of clientOf(connectionString, "Films").listEntities())
    if (mark === true) marked++;
  assert.equal(marked, TOTAL);
}
