import assert from "node:assert/strict";
import { beforeEach, describe, it } from "node:test";
import { SharedFlush } from "./shared-flush.ts";

/** A disk whose flushes end when and how the test decides. */
class Disk {
  /** The flushes that have begun. */
  readonly flushes: { readonly succeed: () => void; readonly fail: () => void }[] = [];
  readonly shared = new SharedFlush(
    () =>
      new Promise((resolve, reject) => {
        this.flushes.push({ succeed: resolve, fail: () => reject(new Error("EIO")) });
      }),
  );
}

const LOST = { message: "EIO" };

describe("A flush that several callers share", () => {
  let disk: Disk;
  beforeEach(() => {
    disk = new Disk();
  });

  it("serves all callers that asked during the previous flush", async () => {
    const { shared, flushes } = disk;
    const first = shared.flush(0);
    const others = [shared.flush(0), shared.flush(0)];
    assert.equal(flushes.length, 1);
    flushes[0]?.succeed();
    await first;
    assert.equal(flushes.length, 2);
    flushes[1]?.succeed();
    await Promise.all(others);
    assert.equal(flushes.length, 2);
  });

  it("fails also for callers that wait for the next flush, whose changes may be lost too", async () => {
    const { shared, flushes } = disk;
    const first = shared.flush(0);
    const other = shared.flush(0);
    flushes[0]?.fail();
    await assert.rejects(first, LOST);
    await assert.rejects(other, LOST);
    assert.equal(flushes.length, 1);
  });

  it("fails for a change made before the failure, even if it is requested afterwards", async () => {
    const { shared, flushes } = disk;
    const madeSince = shared.failures;
    const first = shared.flush(0);
    flushes[0]?.fail();
    await assert.rejects(first, LOST);
    await assert.rejects(shared.flush(madeSince), LOST);
    assert.equal(flushes.length, 1);
  });

  it("succeeds for changes made after a failed flush", async () => {
    const { shared, flushes } = disk;
    const first = shared.flush(0);
    const other = shared.flush(0);
    flushes[0]?.fail();
    await Promise.allSettled([first, other]);
    const again = shared.flush(shared.failures);
    assert.equal(flushes.length, 2);
    flushes[1]?.succeed();
    await again;
  });
});
