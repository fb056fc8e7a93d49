import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { openAccountIds } from "../catalog/account-ids.ts";
import type { AtomicWrite, CommitResult } from "../engine/engine.ts";
import { MemoryEngine } from "../engine/memory-engine.ts";
import { AnalyticsLog } from "../insight/analytics-log.ts";
import { LogBlobs } from "./log-blobs.ts";
import { BlobLab, LabClock } from "./test-blob-lab.ts";

const ACCOUNT = "devstoreaccount1";
const HOUR_MS = 3_600_000;
const DAY_MS = 24 * HOUR_MS;
const LINE_LENGTH = 1000;

describe("The blobs of the analytics log", () => {
  it("are a new one at each flush, with the hour in its name and what it holds in its metadata", async () => {
    const lab = await open();
    const process = lab.process();
    process.add(2);
    await process.blobs.write();
    await process.blobs.write();
    lab.clock.ms += 90_000;
    process.add(1);
    await process.blobs.write();
    assert.deepEqual(await lab.names(), [
      "table/2026/07/31/1800/000000.log",
      "table/2026/07/31/1800/000001.log",
    ]);
    const blob = await lab.blobs.must("GET", "/$logs/table/2026/07/31/1800/000001.log");
    assert.match(blob.body.toString(), /^1\.0;[^\n]*\n$/);
    assert.deepEqual(
      ["logtype", "logversion", "starttime", "endtime"].map((name) =>
        blob.headers.get(`x-ms-meta-${name}`),
      ),
      ["write", "1.0", "2026-07-31T18:01:30Z", "2026-07-31T18:01:30Z"],
    );
  });

  it("of several processes, and of one after a restart, have numbers of their own", async () => {
    const lab = await open();
    const processes = [lab.process(), lab.process(), lab.process()];
    for (const { add } of processes) add(1);
    await Promise.all(processes.map(({ blobs }) => blobs.write()));
    await lab.blobs.must("DELETE", "/$logs/table/2026/07/31/1800/000001.log");
    const later = lab.process();
    later.add(1);
    await later.blobs.write();
    const numbers = (await lab.names()).map((name) => name.slice(-10, -4));
    assert.deepEqual(numbers, ["000000", "000002", "000003"]);
  });

  it("hold every line once, in as many blobs as that takes", async () => {
    const lab = await open();
    const process = lab.process();
    process.add(500);
    await process.blobs.close();
    const names = await lab.names();
    assert.equal(names.length, 4);
    let lines = 0;
    for (const name of names) {
      const { body } = await lab.blobs.must("GET", `/$logs/${name}`);
      assert.ok(body.length <= 128 << 10);
      lines += body.toString().split("\n").length - 1;
    }
    assert.equal(lines, 500);
  });

  it("are kept as long as the retention says, content included", async () => {
    const lab = await open(7);
    const process = lab.process();
    process.add(1);
    await process.blobs.write();
    lab.clock.ms += 7 * DAY_MS;
    await process.blobs.write();
    assert.equal((await lab.names()).length, 1);
    lab.clock.ms += HOUR_MS;
    await process.blobs.write();
    assert.deepEqual(await lab.names(), []);
    await lab.blobs.assertTidy();
  });

  it("come later where they could not be written", async () => {
    const lab = await open();
    const process = lab.process();
    process.add(200);
    lab.engine.fails = true;
    await assert.rejects(process.blobs.write(), /disk is full/);
    lab.engine.fails = false;
    assert.equal(process.log.takeDropped(), 0);
    await process.blobs.write();
    assert.equal((await lab.names()).length, 2);
  });

  it("are not there while nothing is logged", async () => {
    const lab = await open();
    await lab.process().blobs.close();
    await lab.blobs.refused("404 ContainerNotFound", "GET", "/$logs?restype=container&comp=list");
  });

  it("are read and deleted by users, listed on request, and written by nobody", async () => {
    const lab = await open();
    const process = lab.process();
    process.add(1);
    await process.blobs.write();
    const headers = { "x-ms-blob-type": "BlockBlob" };
    const log = "/$logs/table/2026/07/31/1800/000000.log";
    const source = `http://127.0.0.1:10000/${ACCOUNT}${log}`;
    const refused = "403 AuthorizationFailure";
    await lab.blobs.refused(refused, "PUT", "/$logs/mine", { headers, body: "x" });
    await lab.blobs.refused(refused, "PUT", `${log}?comp=metadata`);
    await lab.blobs.refused(refused, "PUT", "/$logs?restype=container&comp=acl");
    await lab.blobs.refused(refused, "DELETE", "/$logs?restype=container");
    await lab.blobs.must("PUT", "/mine?restype=container");
    await lab.blobs.refused(refused, "PUT", "/$logs/mine", {
      headers: { "x-ms-copy-source": source },
    });
    await lab.blobs.must("PUT", "/mine/copy", { headers: { "x-ms-copy-source": source } });
    const listed = async (more: string) =>
      (await lab.blobs.must("GET", `/?comp=list${more}`)).body.toString().includes("$logs");
    assert.deepEqual([await listed(""), await listed("&include=system")], [false, true]);
    await lab.blobs.must("DELETE", log);
    assert.deepEqual(await lab.names(), []);
  });
});

/** A memory that can be made to fail. */
class TestEngine extends MemoryEngine {
  fails = false;

  override commit(write: AtomicWrite): Promise<CommitResult> {
    return this.fails ? Promise.reject(new Error("The disk is full.")) : super.commit(write);
  }
}

async function open(retentionDays?: number) {
  const clock = new LabClock();
  const engine = new TestEngine({ clock });
  const blobs = await BlobLab.open({ clock, engine });
  const accountIds = await openAccountIds(engine, [ACCOUNT]);
  return {
    clock,
    engine,
    /** The Blob service over the same data. */
    blobs,
    /** One more process over the same data. */
    process() {
      const log = new AnalyticsLog(() => {});
      const onError = (error: unknown) => {
        throw error;
      };
      return {
        log,
        blobs: new LogBlobs({
          ...{ engine, clock, accountIds, log, onError },
          retentionDays: () => retentionDays,
        }),
        add(lines: number) {
          const hour = clock.ms - (clock.ms % HOUR_MS);
          for (let i = 0; i < lines; i++) {
            const line = `1.0;${"x".repeat(LINE_LENGTH)}`;
            const entries = [{ line, kind: "write" as const, at: clock.ms }];
            log.giveBack({ account: ACCOUNT, service: "table", hour, entries });
          }
        },
      };
    },
    async names(): Promise<string[]> {
      const list = await blobs.must("GET", "/$logs?restype=container&comp=list");
      return [...list.body.toString().matchAll(/<Name>([^<]*)</g)].map(([, name]) => name!);
    },
  };
}
