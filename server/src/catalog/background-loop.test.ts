import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { BackgroundLoop } from "./background-loop.ts";

describe("A background loop", () => {
  it("runs once more when it is woken during a run, and never concurrently", async () => {
    let runs = 0;
    let running = 0;
    const { loop, release } = open(async (wait) => {
      runs++;
      assert.equal(++running, 1);
      await wait();
      running--;
    });
    loop.wake();
    await turn();
    loop.wake();
    loop.wake();
    assert.equal(runs, 1);
    release();
    await turn();
    assert.equal(runs, 2);
    release();
    await loop.close();
    assert.equal(runs, 2);
  });

  it("runs once more when a run wakes it as it starts", async () => {
    let runs = 0;
    let running = 0;
    const loop: BackgroundLoop = new BackgroundLoop({
      run: async () => {
        assert.equal(++running, 1);
        if (++runs < 3) loop.wake();
        await turn();
        running--;
      },
      periodMs: 60_000,
      onError: (error) => assert.fail(String(error)),
    });
    loop.wake();
    while (runs < 3 || running > 0) await turn();
    await loop.close();
    assert.equal(runs, 3);
  });

  it("reports a failed run and runs again when it is woken", async () => {
    const errors: unknown[] = [];
    let runs = 0;
    const loop = new BackgroundLoop({
      run: async () => {
        if (++runs === 1) throw new Error("first");
      },
      periodMs: 60_000,
      onError: (error) => errors.push(error),
    });
    loop.start();
    await turn();
    loop.wake();
    await turn();
    await loop.close();
    assert.equal(runs, 2);
    assert.equal(errors.length, 1);
  });

  it("can be closed by a run that is starting, and closes after that run", async () => {
    let ended = false;
    let closed: Promise<void> | undefined;
    const loop: BackgroundLoop = new BackgroundLoop({
      run: async () => {
        closed = loop.close().then(() => assert.ok(ended));
        await turn();
        ended = true;
      },
      periodMs: 60_000,
      onError: (error) => assert.fail(String(error)),
    });
    loop.start();
    await turn();
    await closed;
  });

  it("closes after the current run and does not start another", async () => {
    let runs = 0;
    const { loop, release } = open(async (wait) => {
      runs++;
      await wait();
    });
    loop.wake();
    await turn();
    loop.wake();
    const closed = loop.close();
    assert.ok(loop.closed);
    release();
    await closed;
    await turn();
    loop.wake();
    assert.equal(runs, 1);
  });
});

/** A loop whose runs wait until they are released. */
function open(run: (wait: () => Promise<void>) => Promise<void>) {
  let release = () => {};
  const wait = () =>
    new Promise<void>((resolve) => {
      release = resolve;
    });
  const loop = new BackgroundLoop({
    run: () => run(wait),
    periodMs: 60_000,
    onError: (error) => assert.fail(String(error)),
  });
  return { loop, release: () => release() };
}

function turn(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve));
}
