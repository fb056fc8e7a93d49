import assert from "node:assert/strict";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, describe, it } from "node:test";
import type { Engine } from "@rowhouse/server/engine/engine";
import { MemoryEngine } from "@rowhouse/server/engine/memory-engine";
import { decorated } from "@rowhouse/server/engine/test-decorated";
import type { Ask } from "@rowhouse/server/explorer/bulk";
import {
  BulkJobs,
  JOBS_KEPT_MAX,
  JOBS_RUNNING_MAX,
  type Job,
} from "@rowhouse/server/explorer/bulk-jobs";
import { startRowhouse } from "../support/rowhouse-process.ts";
import { accountSas } from "../wire/storage-sas.ts";
import {
  type ExplorerServer,
  NAME,
  OWNER,
  startExplorer,
  startWithFilms,
} from "./explorer-server.ts";
import { clientOf } from "./films.ts";

const JOBS = "/_rowhouse/api/v1/jobs";

describe("A change in bulk that is a job", () => {
  let server: ExplorerServer;
  let token: string;
  before(async () => {
    const film = (_: unknown, n: number) => ({ PartitionKey: `p${n % 2}`, RowKey: `r${n}`, n });
    ({ server, token } = await startWithFilms(Array.from({ length: 150 }, film)));
  });
  after(() => server.close());

  const ask = (verb: string, path: string, body?: object | string, as = token) =>
    server.ask(verb, `${JOBS}${path}`, {
      ...(body !== undefined && { body }),
      headers: { Authorization: `Bearer ${as}` },
    });
  const list = async () => ((await ask("GET", "")).json() as { jobs: Job[] }).jobs;
  const ended = async (id: string): Promise<Job> => {
    for (;;) {
      const job = (await list()).find((each) => each.id === id)!;
      if (job.state !== "running") return job;
    }
  };

  it("goes on without who began it, is shown to others, and is removed", async () => {
    const merge = '{"mark@odata.type":"Edm.Int64","mark":"7"}';
    const wanted = { table: "Films", filter: "n lt 120", merge, isDryRun: false, expected: 120 };
    const begun = await ask("POST", "", wanted);
    assert.equal(begun.status, 201, begun.text);
    const { id } = begun.json() as Job;
    const { state, read, changed, sets, expected } = await ended(id);
    assert.deepEqual(
      { state, read, changed, sets, expected },
      { state: "done", read: 150, changed: 120, sets: ["mark"], expected: 120 },
    );
    const marked = await server.wire(token, "GET", `${NAME}/Films()?$filter=mark%20eq%207L`);
    assert.equal((marked.json() as { value: unknown[] }).value.length, 120);
    assert.equal((await ask("DELETE", `/${id}`)).status, 204);
    assert.deepEqual(await list(), []);
  });

  it("says what refused it, and is resumed when that is mended", async () => {
    const wanted = { table: "Later", filter: "", isDryRun: false, expected: 1 };
    const { id } = (await ask("POST", "", wanted)).json() as Job;
    const failed = await ended(id);
    assert.deepEqual([failed.state, failed.failure?.code], ["failed", "TableNotFound"]);
    await server.wire(token, "POST", `${NAME}/Tables`, { body: { TableName: "Later" } });
    const body = { PartitionKey: "p", RowKey: "r" };
    await server.wire(token, "POST", `${NAME}/Later`, { body });
    assert.equal((await ask("POST", `/${id}`, { do: "resume" })).status, 200);
    const { state, changed, failure } = await ended(id);
    assert.deepEqual([state, changed, failure], ["done", 1, undefined]);
    // What is done stays done.
    assert.equal(((await ask("POST", `/${id}`, { do: "resume" })).json() as Job).state, "done");
    await ask("DELETE", `/${id}`);
  });

  it("is refused to signatures, without a session, as nonsense, and where the explorer is read-only", async () => {
    const wanted = { table: "Films", filter: "", isDryRun: false, expected: 1 };
    const sas = `${server.url}/${NAME}?${accountSas({ ss: "t", sp: "rwdlau" })}`;
    const signed = await server.logIn({ sas });
    assert.equal((await ask("POST", "", wanted, signed.token)).status, 403);
    assert.equal((await ask("GET", "", undefined, signed.token)).status, 403);
    assert.equal((await ask("GET", "", undefined, "")).status, 401);
    for (const body of ["{", { ...wanted, isDryRun: true }, { ...wanted, expected: "1" }])
      assert.equal((await ask("POST", "", body)).status, 400);
    assert.equal((await ask("POST", "/x", { do: "stop" })).status, 400);
    assert.equal((await ask("POST", "/x", { do: "pause" })).status, 404);
    assert.equal((await ask("PUT", "", "")).status, 405);
    const own = await startExplorer({ isReadOnly: true });
    const reader = await own.logIn(OWNER);
    const headers = { Authorization: `Bearer ${reader.token}` };
    assert.equal((await own.ask("POST", JOBS, { body: wanted, headers })).status, 403);
    assert.equal((await own.ask("GET", JOBS, { headers })).status, 200);
    await own.close();
  });
});

describe("Who works on a job", () => {
  const wanted = { table: "Films", filter: "", merge: undefined, expected: 3 };
  const fail = (error: unknown) => {
    throw error;
  };
  /** A table whose pages are one entity each, which come when they are let through. */
  const pages = (count: number) => {
    let given = 0;
    const waiting: (() => void)[] = [];
    const ask: Ask = async ({ verb }) => {
      if (verb !== "GET")
        return {
          answer: { status: 202, headers: [] },
          text: "--changesetresponse_1\r\nHTTP/1.1 204 No Content\r\n",
        };
      await new Promise<void>((resolve) => waiting.push(resolve));
      given++;
      const value = [{ PartitionKey: "p", RowKey: String(given), "odata.etag": "e" }];
      const more = ["x-ms-continuation-nextpartitionkey", "p", "x-ms-continuation-nextrowkey", "r"];
      const headers = ["x-rowhouse-cost", "entities-read=1", ...(given < count ? more : [])];
      return { answer: { status: 200, headers }, text: JSON.stringify({ value }) };
    };
    const letThrough = async () => {
      await until(async () => waiting.length > 0);
      waiting.shift()!();
    };
    return { owner: { account: "a", ask, base: "http://h/a" }, letThrough };
  };
  let now = 1_790_000_000_000;
  const open = (engine: Engine) => {
    let elapsed = 0;
    // Each look at it is later than a slice lasts.
    const clock = { now: () => now, elapsed: () => (elapsed += 2000) };
    return new BulkJobs({ engine, clock, onError: fail });
  };
  const shown = async (jobs: BulkJobs) => {
    const [job] = await jobs.list("a");
    return job && [job.state, job.changed, job.cutOff];
  };

  it("ends after the slice in which it was paused, and goes on where that ended", async () => {
    const jobs = open(new MemoryEngine());
    const { owner, letThrough } = pages(3);
    const { id } = (await jobs.begin(owner, wanted))!;
    await letThrough();
    await until(async () => (await shown(jobs))![1] === 1);
    assert.equal((await jobs.pause("a", id))!.state, "paused");
    await letThrough();
    await jobs.close();
    assert.deepEqual(await shown(jobs), ["paused", 2, 0]);
    assert.deepEqual(await jobs.list("other"), []);
  });

  it("stops at the close of its server, and is one alone: who had it before leaves it to who resumed it", async () => {
    const engine = new MemoryEngine();
    const [first, second] = [open(engine), open(engine)];
    const before = pages(9);
    const { id } = (await first.begin(before.owner, wanted))!;
    await before.letThrough();
    await until(async () => (await shown(first))![1] === 1);
    // As after a kill: nobody else can have the data of this engine, so nobody works on it.
    assert.deepEqual(await shown(second), ["stopped", 1, 0]);
    const after = pages(9);
    assert.equal((await second.resume(after.owner, id))!.state, "running");
    await before.letThrough();
    await first.close();
    assert.deepEqual(await shown(second), ["running", 1, 1]);
    await after.letThrough();
    await until(async () => (await shown(second))![1] === 2);
    const closed = second.close();
    await after.letThrough();
    await closed;
    assert.deepEqual(await shown(second), ["stopped", 3, 1]);
  });

  it("is another server of the same data, until half a minute after its last slice", async () => {
    const alone = new MemoryEngine();
    const supports = { ...alone.supports, sharing: true };
    const engine = decorated(alone, { supports, isShared: () => true });
    const [first, second] = [open(engine), open(engine)];
    const before = pages(9);
    const { id } = (await first.begin(before.owner, wanted))!;
    await before.letThrough();
    await until(async () => (await shown(second))![1] === 1);
    now += 29_000;
    assert.equal((await second.resume(pages(9).owner, id))!.cutOff, 0);
    assert.deepEqual(await shown(second), ["running", 1, 0]);
    await before.letThrough();
    await until(async () => (await shown(second))![1] === 2);
    // As if the first were gone: it gives no sign.
    now += 31_000;
    assert.deepEqual(await shown(second), ["stopped", 2, 0]);
    const after = pages(1);
    assert.equal((await second.resume(after.owner, id))!.state, "running");
    await after.letThrough();
    await until(async () => (await shown(second))![0] === "done");
    assert.deepEqual(await shown(first), ["done", 3, 1]);
    await before.letThrough();
    await first.close();
    assert.deepEqual(await shown(second), ["done", 3, 1]);
  });

  it("is nobody if there are too many, and the oldest that ended are forgotten for new ones", async () => {
    const jobs = open(new MemoryEngine());
    const waiting = pages(1);
    for (let i = 0; i < JOBS_RUNNING_MAX; i++)
      assert.ok(await jobs.begin(waiting.owner, { ...wanted, table: `Running${i}` }));
    assert.equal(await jobs.begin(waiting.owner, wanted), undefined);
    for (let i = 0; i < JOBS_RUNNING_MAX; i++) await waiting.letThrough();
    const noneRuns = async () => (await jobs.list("a")).every(({ state }) => state === "done");
    await until(noneRuns);
    for (let i = 0; i < JOBS_KEPT_MAX; i++) {
      const next = pages(1);
      assert.ok(await jobs.begin(next.owner, { ...wanted, table: `Later${i}` }));
      await next.letThrough();
      await until(noneRuns);
    }
    const tables = (await jobs.list("a")).map(({ table }) => table);
    assert.equal(tables.length, JOBS_KEPT_MAX);
    assert.ok(!tables.includes("Running0"));
  });
});

it("A job whose server is killed stops where it was, and goes on when somebody says so", async () => {
  const folder = mkdtempSync(join(tmpdir(), "rowhouse-"));
  let process = await startRowhouse(folder);
  const api = async (path: string, token: string, method = "GET", body?: object) => {
    const answer = await fetch(`${process.tableUrl}/_rowhouse/api/v1/${path}`, {
      method,
      headers: { Authorization: `Bearer ${token}` },
      ...(body && { body: JSON.stringify(body) }),
    });
    assert.ok(answer.ok, `${path}: ${answer.status}`);
    return answer.json() as Promise<never>;
  };
  const { token } = (await api("session", "", "POST", OWNER)) as { token: string };
  const table = clientOf(process.connectionString, "Films");
  await table.createTable();
  const total = 4000;
  const row = (i: number) => ({ partitionKey: `p${i % 40}`, rowKey: `${i}`, n: i });
  const partition = (p: number) =>
    table.submitTransaction(
      Array.from({ length: total / 40 }, (_, i) => ["create", row(i * 40 + p)]),
    );
  await Promise.all(Array.from({ length: 40 }, (_, p) => partition(p)));
  const wanted = { table: "Films", filter: "n ge 0", isDryRun: false, expected: total };
  await api("jobs", token, "POST", wanted);
  await process.kill();
  process = await startRowhouse(folder);
  const list = async () => ((await api("jobs", token)) as { jobs: Job[] }).jobs;
  const [stopped] = await list();
  assert.equal(stopped!.state, "stopped");
  await api(`jobs/${stopped!.id}`, token, "POST", { do: "resume" });
  let [job] = await list();
  while (job!.state === "running") [job] = await list();
  assert.deepEqual([job!.state, job!.cutOff], ["done", 1]);
  const again = clientOf(process.connectionString, "Films");
  for await (const { rowKey } of again.listEntities()) assert.fail(`${rowKey} is left`);
  await process.stop();
  rmSync(folder, { recursive: true });
});

/** Looks again and again, and lets others work in between. */
async function until(isSo: () => Promise<boolean>): Promise<void> {
  while (!(await isSo())) await new Promise((next) => setImmediate(next));
}
