import { connect } from "../index.ts";
import { createWorker, type Handler, sendMessage, type WorkerOptions } from "../queue-worker.ts";
import { memory } from "../testing.ts";

/** For tests: a worker of one queue, with one handler. */
export const QUEUE = "work";
export const note = (key: string) => ({ kind: "note", key, body: { key } });

export async function open(
  handle: Handler["handle"],
  options: Partial<WorkerOptions> = {},
  backend = memory(),
) {
  const db = connect(backend);
  const worker = createWorker(db, {
    queue: QUEUE,
    handlers: [{ kind: "note", handle }],
    onFailure: () => {},
    ...options,
  });
  await worker.createQueues();
  const send = (key: string) => sendMessage(db, QUEUE, note(key));
  const left = (queue = QUEUE) => backend.queues.contents(queue).length;
  return { backend, db, worker, send, left };
}
