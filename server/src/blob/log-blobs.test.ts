import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { openAccountIds } from "../catalog/account-ids.ts";
import {
  type AtomicWrite,
  CALL_MS_MAX,
  type CommitResult,
  EngineError,
  type EngineErrorCode,
} from "../engine/engine.ts";
import { MemoryEngine } from "../engine/memory-engine.ts";
import { AnalyticsLog } from "../insight/analytics-log.ts";
import { LogBlobs } from "./log-blobs.ts";
import { BlobLab, LabClock } from "./test-blob-lab.ts";

const ACCOUNT = "devstoreaccount1";
const HOUR_MS = 3_600_000;
const DAY_MS = 24 * HOUR_MS;
const LINE_LENGTH = 1000;

describe("The blobs of the analytics log", () => {
  it("are new at each flush, with the hour in the name and the kind and times of lines in the metadata", async () => {
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

  it("of several processes, and of a process after a restart, have different numbers", async () => {
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

  it("contain every line once, in as many blobs as necessary", async () => {
    const lab = await open();
    const process = lab.process();
    process.add(500);
    await process.blobs.close();
    const names = await lab.names();
    assert.equal(names.length, 4);
    for (const name of names) {
      const { body } = await lab.blobs.must("GET", `/$logs/${name}`);
      assert.ok(body.length <= 128 << 10);
    }
    assert.equal(await lab.countLines(), 500);
    assert.deepEqual(process.errors, []);
  });

  it("are deleted after the retention period, including their content", async () => {
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

  it("are deleted in time even if the logs of another service cannot be read", async () => {
    const lab = await open(7);
    const process = lab.process();
    process.add(1);
    await process.blobs.write();
    lab.clock.ms += 7 * DAY_MS + HOUR_MS;
    lab.engine.damaged = "blob/";
    await assert.rejects(process.blobs.write(), { code: "Corrupt" });
    await process.blobs.write();
    assert.deepEqual(await lab.names(), []);
  });

  it("are written later if writing fails", async () => {
    const lab = await open();
    const process = lab.process();
    process.add(200);
    lab.engine.fault = "bug";
    await assert.rejects(process.blobs.write(), /Told to fail/);
    lab.engine.fault = undefined;
    assert.equal(process.log.takeDropped(), 0);
    await process.blobs.write();
    assert.equal((await lab.names()).length, 2);
  });

  it("contain no line twice if the outcome of a write is unknown", async () => {
    const lab = await open();
    const process = lab.process();
    process.add(1);
    await process.blobs.write();
    process.add(1);
    lab.engine.fault = "Unknown";
    await assert.rejects(process.blobs.write(), { code: "Unknown" });
    lab.engine.fault = undefined;
    process.add(1);
    await process.blobs.write();
    assert.equal(await lab.countLines(), 3);
  });

  it("are written later if it is unknown whether their container was created", async () => {
    const lab = await open();
    const process = lab.process();
    process.add(1);
    lab.engine.fault = "Unknown";
    await assert.rejects(process.blobs.write(), { code: "Unknown" });
    lab.engine.fault = undefined;
    await process.blobs.write();
    assert.equal(await lab.countLines(), 1);
  });

  it("are tried once per run, not once per blob, while the engine is unavailable, and lose no lines", async () => {
    const lab = await open();
    const process = lab.process();
    process.add(1);
    await process.blobs.write();
    const { commits } = lab.engine;
    lab.engine.fault = "Unavailable";
    process.add(250);
    lab.clock.ms += HOUR_MS;
    process.add(250);
    await assert.rejects(process.blobs.write(), { code: "Unavailable" });
    assert.equal(lab.engine.commits, commits + 1);
    lab.engine.fault = undefined;
    await process.blobs.write();
    assert.equal(await lab.countLines(), 501);
  });

  it("are written at shutdown, as many as possible in a short time", async () => {
    for (const [blobMs, errors] of [
      [0, []],
      [6_000, ["Error: 2 blobs of the analytics log were not written before the server ended."]],
    ] as const) {
      const lab = await open();
      const process = lab.process();
      process.add(1);
      await process.blobs.write();
      process.add(500);
      lab.engine.onCommit = () => {
        lab.clock.ms += blobMs;
      };
      await process.blobs.close();
      assert.deepEqual(process.errors.map(String), errors);
    }
  });

  it("do not delay shutdown if the engine is already unavailable", async () => {
    const lab = await open();
    const process = lab.process();
    process.add(1);
    await process.blobs.write();
    const { commits } = lab.engine;
    process.add(500);
    let closing: Promise<void> | undefined;
    lab.engine.fault = "Unavailable";
    lab.engine.onCommit = () => {
      closing ??= process.blobs.close();
      lab.clock.ms += CALL_MS_MAX;
    };
    process.blobs.wake();
    while (closing === undefined) await new Promise((resolve) => setImmediate(resolve));
    await closing;
    assert.equal(lab.engine.commits, commits + 1);
    assert.match(String(process.errors), /4 blobs of the analytics log were not written/);
  });

  it("do not exist if nothing is logged", async () => {
    const lab = await open();
    await lab.process().blobs.close();
    await lab.blobs.refused("404 ContainerNotFound", "GET", "/$logs?restype=container&comp=list");
  });

  it("can be read, listed on request and deleted by clients, but not written", async () => {
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

/** A memory engine whose commits can be made to fail. */
class TestEngine extends MemoryEngine {
  /** The error that commits end with; those that end with "Unknown" happen nevertheless. */
  fault: EngineErrorCode | "bug" | undefined;
  /** Scans that start at this sort key fail. */
  damaged: string | undefined;
  commits = 0;
  /** Called at each commit. */
  onCommit = () => {};

  override async commit(write: AtomicWrite): Promise<CommitResult> {
    this.commits++;
    this.onCommit();
    if (this.fault === "bug") throw new Error("Told to fail.");
    if (this.fault === "Unknown") await super.commit(write);
    if (this.fault) throw new EngineError(this.fault, "Told to fail.");
    return super.commit(write);
  }

  override scan(...read: Parameters<MemoryEngine["scan"]>): ReturnType<MemoryEngine["scan"]> {
    if (this.damaged && Buffer.from(read[0].start.sort).toString() === this.damaged) {
      throw new EngineError("Corrupt", "Told to be.");
    }
    return super.scan(...read);
  }
}

async function open(retentionDays?: number) {
  const clock = new LabClock();
  const engine = new TestEngine({ clock });
  const blobs = await BlobLab.open({ clock, engine });
  const accountIds = await openAccountIds(engine, [ACCOUNT]);
  const names = async () => {
    const list = await blobs.must("GET", "/$logs?restype=container&comp=list");
    return [...list.body.toString().matchAll(/<Name>([^<]*)</g)].map(([, name]) => name!);
  };
  return {
    clock,
    engine,
    /** The Blob service over the same data. */
    blobs,
    /** Starts one more process over the same data. */
    process() {
      const log = new AnalyticsLog(() => {});
      const errors: unknown[] = [];
      return {
        errors,
        log,
        blobs: new LogBlobs({
          ...{ engine, clock, accountIds, log },
          retentionDays: () => retentionDays,
          onError: (error) => errors.push(error),
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
    names,
    async countLines(): Promise<number> {
      let lines = 0;
      for (const name of await names()) {
        const { body } = await blobs.must("GET", `/$logs/${name}`);
        lines += body.toString().split("\n").length - 1;
      }
      return lines;
    },
  };
}
