import { useSignal } from "@preact/signals";
import type { TargetedEvent } from "preact";
import { useEffect, useRef } from "preact/hooks";
import { Failure } from "./failure.tsx";
import {
  clearMessages,
  countMessages,
  createQueue,
  listQueues,
  type Message,
  PEEK_MAX,
  peekMessages,
  poisonOf,
  putMessage,
  queueExists,
  redrive,
  sourceOf,
} from "./queue-data.ts";
import { route } from "./route.ts";
import { screenAddress } from "./route-text.ts";
import { ServerError, session } from "./session.ts";
import { decoded } from "./storage-xml.ts";
import { age, count, counted } from "./text.ts";
import { useRead } from "./use-read.ts";

/** Queues, and what waits in them. */
export function QueuesScreen() {
  const { subject } = route.value;
  return subject === "" ? <Queues /> : <Queue key={subject} queue={subject} />;
}

interface Depth {
  readonly queue: string;
  readonly messages: number;
  readonly oldest: Message | undefined;
}

/** Further queues are named, not counted. */
const COUNTED_MAX = 100;

async function readDepths(): Promise<{ readonly queues: string[]; readonly depths: Depth[] }> {
  const queues = await listQueues();
  const depths: Depth[] = [];
  for (const queue of queues.slice(0, COUNTED_MAX)) {
    try {
      const messages = await countMessages(queue);
      depths.push({ queue, messages, oldest: (await peekMessages(queue, 1))[0] });
    } catch (error) {
      // A queue that was deleted meanwhile, or that a signature does not open.
      if (!(error instanceof ServerError) || error.status === 0) throw error;
    }
  }
  return { queues, depths };
}

function Queues() {
  const { value, failure, again } = useRead(readDepths, "");
  const name = useSignal("");
  const refused = useSignal<ServerError | undefined>(undefined);
  const create = async (event: Event) => {
    event.preventDefault();
    refused.value = await failureOf(() => createQueue(name.value));
    if (!refused.value) name.value = "";
    await again();
  };
  const depths = new Map(value?.depths.map((each) => [each.queue, each]));
  const now = Date.now();
  return (
    <section class="insight" aria-labelledby="queues-title">
      <div class="insight-head">
        <h1 id="queues-title">Queues</h1>
        <button type="button" onClick={again}>
          Refresh
        </button>
        <span class="space" />
        {!session.value?.isReadOnly && (
          <form class="inline-form" onSubmit={create}>
            <input
              aria-label="New queue"
              placeholder="New queue"
              required
              value={name.value}
              onInput={(event) => {
                name.value = event.currentTarget.value;
              }}
            />
            <button type="submit">Create</button>
          </form>
        )}
      </div>
      {failure && <Failure error={failure} again={again} />}
      {refused.value && <Failure error={refused.value} />}
      {!value && !failure && <p class="quiet">Counting…</p>}
      {value && value.queues.length === 0 && (
        <div class="empty">
          <p>
            <strong>No queues yet.</strong> Create one above, or let the application do it.
          </p>
        </div>
      )}
      {value && value.queues.length > 0 && (
        <table>
          <thead>
            <tr>
              <th scope="col">Queue</th>
              <th scope="col" class="number">
                messages
              </th>
              <th scope="col">oldest that is visible</th>
              <th scope="col">what could not be handled</th>
            </tr>
          </thead>
          <tbody>
            {value.queues.map((queue) => {
              const depth = depths.get(queue);
              const poison = depths.get(poisonOf(queue));
              const source = sourceOf(queue);
              return (
                <tr key={queue}>
                  <th scope="row">
                    <a href={screenAddress("queues", queue)}>{queue}</a>
                  </th>
                  <td class="number">{depth ? count(depth.messages) : "—"}</td>
                  <td>{depth?.oldest ? age(depth.oldest.insertedAt, now) : "—"}</td>
                  <td>
                    {poison && (
                      <a href={screenAddress("queues", poison.queue)}>
                        {poison.messages > 0 && <span aria-hidden="true">▲ </span>}
                        {counted(poison.messages, "poison message")}
                      </a>
                    )}
                    {source !== undefined && <span class="quiet">of {source}</span>}
                  </td>
                </tr>
              );
            })}
          </tbody>
        </table>
      )}
      <p class="quiet small">
        Messages are counted with those that are hidden, because somebody works on them.
      </p>
    </section>
  );
}

async function failureOf(work: () => Promise<unknown>): Promise<ServerError | undefined> {
  try {
    await work();
    return undefined;
  } catch (error) {
    if (error instanceof ServerError) return error;
    throw error;
  }
}

function Queue({ queue }: { queue: string }) {
  const read = async () => ({
    messages: await peekMessages(queue),
    all: await countMessages(queue),
  });
  const { value, failure, again } = useRead(read, queue);
  const refused = useSignal<ServerError | undefined>(undefined);
  const isRaw = useSignal(false);
  const source = sourceOf(queue);
  const put = async (event: TargetedEvent<HTMLFormElement, Event>) => {
    event.preventDefault();
    const form = event.currentTarget;
    const text = String(new FormData(form).get("text") ?? "");
    refused.value = await failureOf(() => putMessage(queue, text));
    if (!refused.value) form.reset();
    await again();
  };
  const mayWrite = !session.value?.isReadOnly;
  return (
    <section class="insight" aria-labelledby="queue-title">
      <div class="insight-head">
        <h1 id="queue-title">{queue}</h1>
        <a href={screenAddress("queues")}>All queues</a>
        <button type="button" onClick={again}>
          Peek again
        </button>
        <label class="inline">
          <input
            type="checkbox"
            checked={isRaw.value}
            onChange={(event) => {
              isRaw.value = event.currentTarget.checked;
            }}
          />
          as stored
        </label>
        <span class="space" />
        {mayWrite && value && value.all > 0 && (
          <Clear queue={queue} all={value.all} done={again} refused={refused} />
        )}
      </div>
      {failure && <Failure error={failure} again={again} />}
      {refused.value && <Failure error={refused.value} />}
      {source !== undefined && mayWrite && value && (
        <RedrivePanel from={queue} to={source} all={value.all} done={again} />
      )}
      {value && (
        <p role="status">
          {counted(value.messages.length, "message")} peeked, of {count(value.all)}: they stay where
          they are, and nobody receives them.
          {value.all > value.messages.length &&
            ` The others are hidden, or behind the first ${PEEK_MAX}.`}
        </p>
      )}
      {value?.messages.map((message) => (
        <Shown key={message.id} message={message} isRaw={isRaw.value} />
      ))}
      {mayWrite && value && (
        <form class="put" onSubmit={put}>
          <label>
            New message
            <textarea name="text" rows={3} required spellcheck={false} />
          </label>
          <div>
            <button type="submit">Put</button>
          </div>
        </form>
      )}
    </section>
  );
}

function Shown({ message, isRaw }: { message: Message; isRaw: boolean }) {
  const { kind, text } = isRaw ? { kind: "as stored", text: message.text } : decoded(message.text);
  const now = Date.now();
  return (
    <article class="message" aria-label={`Message ${message.id}`}>
      <p class="small quiet">
        put {age(message.insertedAt, now)} · received {counted(message.dequeued, "time")} · expires{" "}
        {new Date(message.expiresAt).toLocaleString("en-GB")} · {kind} ·{" "}
        {counted(message.text.length, "character")} · <span class="mono">{message.id}</span>
      </p>
      <pre>{text}</pre>
    </article>
  );
}

function Clear({
  queue,
  all,
  done,
  refused,
}: {
  queue: string;
  all: number;
  done: () => Promise<void>;
  refused: { value: ServerError | undefined };
}) {
  const dialog = useRef<HTMLDialogElement>(null);
  return (
    <>
      <button type="button" class="danger" onClick={() => dialog.current?.showModal()}>
        Clear…
      </button>
      <dialog ref={dialog} aria-labelledby="clear-title">
        <h2 id="clear-title">
          Delete {counted(all, "message")} of {queue} in {session.value?.account}?
        </h2>
        <p>The hidden ones, too, at {location.host}. This cannot be undone.</p>
        <div class="buttons">
          <button type="button" onClick={() => dialog.current?.close()}>
            Keep
          </button>
          <button
            type="button"
            class="danger"
            onClick={async () => {
              refused.value = await failureOf(() => clearMessages(queue));
              dialog.current?.close();
              await done();
            }}
          >
            Delete
          </button>
        </div>
      </dialog>
    </>
  );
}

/** Sends what could not be handled back to where it came from. */
function RedrivePanel({
  from,
  to,
  all,
  done,
}: {
  from: string;
  to: string;
  all: number;
  done: () => Promise<void>;
}) {
  const said = useSignal("");
  const failure = useSignal<ServerError | undefined>(undefined);
  const running = useSignal<AbortController | undefined>(undefined);
  const lacksTarget = useSignal(false);
  // "" until somebody types: all of them.
  const most = useSignal("");
  const rate = useSignal("10");
  useEffect(() => () => running.peek()?.abort(), []);
  const start = async (event: TargetedEvent<HTMLFormElement, SubmitEvent>) => {
    event.preventDefault();
    const isDryRun =
      event.submitter instanceof HTMLButtonElement && event.submitter.value === "dry";
    const wanted = Math.min(Number(most.value || all), all);
    const aSecond = Number(rate.value);
    failure.value = await failureOf(async () => {
      lacksTarget.value = !(await queueExists(to));
      if (lacksTarget.value) return;
      if (isDryRun) {
        const peeked = await peekMessages(from);
        // Fewer than were asked for: all that are visible.
        const moved = peeked.length < PEEK_MAX ? Math.min(wanted, peeked.length) : wanted;
        const seconds = Math.ceil(Math.max(0, moved - 1) / aSecond);
        const first = peeked[0] ? `, first ${decoded(peeked[0].text).text.slice(0, 60)}` : "";
        said.value = `Would move ${counted(moved, "message")} to ${to} in ${count(seconds)} s${first}. Nothing was moved.`;
        return;
      }
      const stop = new AbortController();
      running.value = stop;
      const moved = await redrive({
        ...{ from, to, most: wanted, rate: aSecond, signal: stop.signal },
        onMoved: (so) => {
          said.value = `${so} of ${wanted} moved to ${to}`;
        },
        pause: (ms) => new Promise((resolve) => setTimeout(resolve, ms)),
      });
      most.value = "";
      said.value = `${counted(moved, "message")} moved to ${to}.`;
    });
    running.value = undefined;
    await done();
  };
  return (
    <form class="redrive" onSubmit={start} aria-label="Redrive">
      <strong>Redrive to {to}</strong>
      <label class="inline">
        at most
        <input
          type="number"
          min={1}
          max={100_000}
          value={most.value || Math.max(1, all)}
          required
          onInput={(event) => {
            most.value = event.currentTarget.value;
          }}
        />
      </label>
      <label class="inline">
        messages a second
        <input
          type="number"
          min={0.1}
          max={100}
          step="any"
          value={rate.value}
          required
          onInput={(event) => {
            rate.value = event.currentTarget.value;
          }}
        />
      </label>
      <button type="submit" value="dry" disabled={running.value !== undefined}>
        Dry run
      </button>
      <button type="submit" class="primary" disabled={all === 0 || running.value !== undefined}>
        Redrive
      </button>
      {running.value && (
        <button type="button" onClick={() => running.value?.abort()}>
          Stop
        </button>
      )}
      {lacksTarget.value && (
        <p class="notice" role="alert">
          There is no queue {to}.{" "}
          <button
            type="button"
            onClick={async () => {
              failure.value = await failureOf(() => createQueue(to));
              lacksTarget.value = false;
            }}
          >
            Create it
          </button>
        </p>
      )}
      <p role="status" class="small">
        {said.value ||
          "Each message is put back before it is deleted here: none is lost, and one may be there twice if this page is closed meanwhile."}
      </p>
      {failure.value && <Failure error={failure.value} />}
    </form>
  );
}
