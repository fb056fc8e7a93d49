import assert from "node:assert/strict";
import { afterEach, beforeEach, describe, it } from "node:test";
import { putDraftHead } from "./content-life/drafts.ts";
import { BlobLab, LabClock } from "./test-blob-lab.ts";

const DAY_MS = 24 * 3_600_000;
const LARGE = Buffer.alloc(200_000, 1);

describe("Uncommitted blocks", () => {
  let lab: BlobLab;

  beforeEach(async () => {
    lab = await BlobLab.open();
    await lab.must("PUT", "/docs?restype=container");
  });
  afterEach(() => lab.close());

  it("are dropped a week after the last one was put", async () => {
    await putBlock("a", "AAAA");
    await after(6);
    await putBlock("a", "BBBB");
    await after(6.9);
    await lab.must("GET", "/docs/a?comp=blocklist&blocklisttype=all");
    await after(0.2);
    await lab.refused("404 BlobNotFound", "GET", "/docs/a?comp=blocklist&blocklisttype=all");
    await lab.assertTidy();
  });

  it("are dropped by the background work after it has been started", async () => {
    await putBlock("a", "AAAA");
    lab.clock.ms += 8 * DAY_MS;
    lab.service.draftExpiry.start();
    let status = 200;
    for (let turn = 0; status === 200 && turn < 1000; turn++) {
      await new Promise((resolve) => setImmediate(resolve));
      ({ status } = await lab.send("GET", "/docs/a?comp=blocklist&blocklisttype=all"));
    }
    assert.equal(status, 404);
  });

  it("are dropped without the committed blob, and may be put again", async () => {
    await lab.must("PUT", "/docs/a", { headers: { "x-ms-blob-type": "BlockBlob" }, body: LARGE });
    await putBlock("a", "AAAA");
    await after(8);
    await lab.must("GET", "/docs/a");
    await putBlock("a", "CCCCCCCC");
    const body = "<BlockList><Latest>CCCCCCCC</Latest></BlockList>";
    await lab.must("PUT", "/docs/a?comp=blocklist", { body });
    await after(8);
    await lab.must("GET", "/docs/a");
    await lab.assertTidy();
  });

  it("are dropped for each blob at its own time", async () => {
    for (const name of ["a", "b", "c"]) {
      await putBlock(name, "AAAA");
      await after(1);
    }
    await after(5);
    await lab.refused("404 BlobNotFound", "GET", "/docs/a?comp=blocklist&blocklisttype=all");
    await lab.must("GET", "/docs/b?comp=blocklist&blocklisttype=all");
    await after(2);
    for (const name of ["b", "c"]) {
      const path = `/docs/${name}?comp=blocklist&blocklisttype=all`;
      await lab.refused("404 BlobNotFound", "GET", path);
    }
    await lab.assertTidy();
  });

  it("stay if another is put while they are being dropped", async () => {
    await putBlock("a", "AAAA");
    const { engine } = lab;
    const commit = engine.commit.bind(engine);
    engine.commit = async (write) => {
      engine.commit = commit;
      await putBlock("a", "BBBB");
      return commit(write);
    };
    await after(8);
    const { body } = await lab.must("GET", "/docs/a?comp=blocklist&blocklisttype=uncommitted");
    assert.deepEqual(body.toString().match(/<Name>.*?</g), ["<Name>AAAA<", "<Name>BBBB<"]);
    await lab.assertTidy();
  });

  it("stay if only the clock was set ahead a week", async () => {
    const { clock, engine } = lab;
    const other = await BlobLab.open({ engine, clock, ageClock: new LabClock() });
    await putBlock("a", "AAAA");
    clock.ms += 8 * DAY_MS;
    await other.service.draftExpiry.expire();
    await lab.must("GET", "/docs/a?comp=blocklist&blocklisttype=all");
    await other.close();
  });

  it("are freed with a deleted container", async () => {
    await putBlock("a", "AAAA");
    await lab.must("DELETE", "/docs?restype=container");
    await after(8);
    await lab.service.service.context.reaper.reap();
    await lab.assertTidy();
  });

  it("are dropped even if an earlier draft belongs to an account that is no longer served", async () => {
    const { engine } = lab;
    const version = engine.nextVersion();
    const name = { account: "gone", container: "docs", blob: "a" };
    const puts = [putDraftHead("00000000001aaaaa", name)];
    assert.ok((await engine.commit({ version, checks: [], puts, deletes: [] })).committed);
    const errors: unknown[] = [];
    const { clock } = lab;
    const other = await BlobLab.open({ engine, clock, onError: (error) => errors.push(error) });
    await putBlock("a", "AAAA");
    clock.ms += 8 * DAY_MS;
    await other.service.draftExpiry.expire();
    assert.match(String(errors), /^Error: Account "gone" was not opened/);
    await lab.refused("404 BlobNotFound", "GET", "/docs/a?comp=blocklist&blocklisttype=all");
    await other.close();
  });

  async function putBlock(name: string, id: string): Promise<void> {
    await lab.must("PUT", `/docs/${name}?comp=block&blockid=${id}`, { body: LARGE });
  }

  async function after(days: number): Promise<void> {
    lab.clock.ms += days * DAY_MS;
    await lab.service.draftExpiry.expire();
  }
});
