import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { connect, type Database, isTableError } from "../index.ts";
import { createWorker, sendMessage } from "../queue-worker.ts";
import { loseEveryAnswer } from "../testing/test-lose-every-answer.ts";
import { FakeClock, intercept, memory, withFaults } from "../testing.ts";
import { note, open, QUEUE } from "./test-worker.ts";

describe("a message with a large body", () => {
  it("stores its body in a blob, which is deleted once the message is done", async () => {
    const seen: unknown[] = [];
    const { db, backend, worker } = await open(async ({ body }) => seen.push(body));
    await backend.blobs.createContainer("bodies");
    const body = "x".repeat(60_000);
    const message = { kind: "note", key: "a", body };
    await assert.rejects(sendMessage(db, QUEUE, message), (error) =>
      isTableError(error, "validation-failed"),
    );
    await sendMessage(db, QUEUE, message, { largeBodies: "bodies" });
    assert.equal((await backend.blobs.list("bodies", {})).blobs.length, 1);
    await worker.drain();
    assert.deepEqual(seen, [body]);
    assert.equal((await backend.blobs.list("bodies", {})).blobs.length, 0);
  });

  it("is done even if its blob cannot be deleted, and the worker reports that", async () => {
    const { db, backend } = await open(async () => undefined);
    await backend.blobs.createContainer("bodies");
    const message = { kind: "note", key: "a", body: "x".repeat(60_000) };
    await sendMessage(db, QUEUE, message, { largeBodies: "bodies" });
    const failing = withFaults(({ port, method }) =>
      port === "blobs" && method === "delete"
        ? { kind: "refuse", status: 403, code: "AuthorizationFailure" }
        : undefined,
    );
    const events: string[] = [];
    const onEvent = ({ kind }: { kind: string }) => events.push(kind);
    const refused = connect({ ...backend, ...intercept(backend, failing), onEvent });
    const handlers = [{ kind: "note", handle: async () => undefined }];
    await createWorker(refused, { queue: QUEUE, handlers }).drain();
    assert.deepEqual(events, ["background failure"]);
    assert.deepEqual(backend.queues.contents(QUEUE), []);
  });

  it("shares its blob with no other message, even if both have an undefined id", async () => {
    const bodies: unknown[] = [];
    const { backend, db, worker } = await open(async ({ body }) => bodies.push(body));
    await backend.blobs.createContainer("bodies");
    for (const letter of ["a", "b"]) {
      const message = { ...note(letter), body: letter.repeat(50_000), id: undefined as never };
      await sendMessage(db, QUEUE, message, { largeBodies: "bodies" });
    }
    await worker.drain();
    assert.deepEqual(bodies.sort(), ["a".repeat(50_000), "b".repeat(50_000)]);
  });

  it("shares its blob with no message of the same id that is sent while it is being handled", async () => {
    const bodies: unknown[] = [];
    const { backend, db, worker } = await open(async ({ body }) => {
      bodies.push(body);
      if (bodies.length === 1) await send("b");
    });
    await backend.blobs.createContainer("bodies");
    const send = (letter: string) =>
      sendMessage(
        db,
        QUEUE,
        { ...note("same"), id: "same", body: letter.repeat(50_000) },
        { largeBodies: "bodies" },
      );
    await send("a");
    await worker.drain();
    assert.deepEqual(bodies, ["a".repeat(50_000), "b".repeat(50_000)]);
    assert.deepEqual((await backend.blobs.list("bodies", {})).blobs, []);
  });

  it("leaves no blob behind if an answer is lost", async () => {
    const body = "x".repeat(60_000);
    const before = async (db: Database) => {
      await createWorker(db, { queue: QUEUE, handlers: [] }).createQueues();
      await db.blobs!.createContainer("bodies");
      await sendMessage(db, QUEUE, { ...note("a"), body }, { largeBodies: "bodies" });
    };
    const bodies = async (db: Database) => (await db.blobs!.list("bodies", {})).blobs.length;
    const handlers = [{ kind: "note", handle: async () => {} }];
    await loseEveryAnswer((db) => createWorker(db, { queue: QUEUE, handlers }).drain(), {
      before,
      check: async (db, { clock }) => {
        // A message whose receiver got no answer becomes visible again.
        clock.advance(60_000);
        await createWorker(db, { queue: QUEUE, handlers }).drain();
        assert.equal(await bodies(db), 0);
      },
    });
  });

  it("is refused above 48 KiB if no container is named", async () => {
    const { backend, db } = await open(async () => {});
    const send = (body: string) => sendMessage(db, QUEUE, { ...note("a"), id: "m", body });
    await send("");
    const bytes = backend.queues.contents(QUEUE)[0]!.text.length;
    await send("x".repeat(48 * 1024 - bytes));
    await assert.rejects(send("x".repeat(48 * 1024 - bytes + 1)), (error) =>
      isTableError(error, "validation-failed"),
    );
  });

  it("leaves its blob alone if another worker has received it meanwhile", async () => {
    /** The clock of a suspended process: the time to renew the lease passes before it notices. */
    const clock = new (class extends FakeClock {
      override alarm(_ms: number, signal?: AbortSignal) {
        return super.alarm(Number.POSITIVE_INFINITY, signal);
      }
    })();
    const backend = memory({ clock });
    const { db, worker } = await open(
      async () => {
        clock.advance(61_000);
        await backend.queues.receive(QUEUE, { max: 1, visibilityMs: 60_000 });
      },
      {},
      backend,
    );
    await backend.blobs.createContainer("bodies");
    const message = { kind: "note", key: "a", body: "x".repeat(60_000) };
    await sendMessage(db, QUEUE, message, { largeBodies: "bodies" });
    await worker.drain();
    assert.equal((await backend.blobs.list("bodies", {})).blobs.length, 1);
  });
});
