import archiveCode from "code:./playground/archive.ts";
import bulkDeleteCode from "code:./playground/bulk-delete.ts";
import logTailCode from "code:./playground/log-tail.ts";
import remoteIndexCode from "code:./playground/remote-index.ts";
import siblingIndexCode from "code:./playground/sibling-index.ts";
import wideCode from "code:./playground/wide.ts";
import { useSignal } from "@preact/signals";
import { PortError } from "@rowhouse/patterns";
import { FakeClock, memory } from "@rowhouse/patterns/testing";
import { useEffect, useRef } from "preact/hooks";
import { Failure } from "./failure.tsx";
import { useCommand } from "./keys.tsx";
import type { Action, Pattern } from "./playground/pattern.ts";
import { PATTERN_MAP } from "./playground/pattern-map.ts";
import { isPatternId, PATTERNS, type PatternId } from "./playground/patterns.ts";
import {
  type AskedRequest,
  type MarkedRow,
  PlaygroundRun,
  type Shown,
  type Verdict,
} from "./playground/playground-run.ts";
import { isScratch, newScratchPrefix, scratchTables } from "./playground/scratch-tables.ts";
import { route } from "./route.ts";
import { screenAddress } from "./route-text.ts";
import { ServerError, session, wire } from "./session.ts";
import { deleteTable, readTables } from "./table-facts.ts";
import { count, counted } from "./text.ts";
import { useRead } from "./use-read.ts";

/** What is shown is cut out of what runs, when the page is built. */
const CODE: Readonly<Record<PatternId, string>> = {
  "sibling-index": siblingIndexCode,
  "remote-index": remoteIndexCode,
  archive: archiveCode,
  "log-tail": logTailCode,
  "bulk-delete": bulkDeleteCode,
  wide: wideCode,
};

/** The published patterns, or one of them to try. */
export function PlaygroundScreen() {
  const { subject } = route.value;
  return isPatternId(subject) ? (
    <Try key={subject} pattern={PATTERNS[subject]} code={CODE[subject]} />
  ) : (
    <Contents />
  );
}

function Contents() {
  return (
    <section class="insight" aria-labelledby="playground-title">
      <h1 id="playground-title">Playground</h1>
      <p>
        The published patterns of table design, as the pattern library has them. Some can be tried
        here: the library runs in this page against this server, on tables of its own, request by
        request, and may die before any of them.
      </p>
      {session.value!.isReadOnly ? <ReadOnly /> : <LeftOver />}
      <table>
        <thead>
          <tr>
            <th scope="col">Pattern</th>
            <th scope="col">When</th>
            <th scope="col">In @rowhouse/patterns</th>
          </tr>
        </thead>
        <tbody>
          {PATTERN_MAP.map(({ name, when, entries, tried }) => (
            <tr key={name}>
              <th scope="row">
                {tried ? <a href={screenAddress("playground", tried)}>{name}</a> : name}
              </th>
              <td>{when}</td>
              <td class="mono">{entries.join(", ")}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </section>
  );
}

function ReadOnly() {
  return (
    <p class="notice">
      The server shows this explorer read-only, and the playground writes: nothing can be tried
      here.
    </p>
  );
}

/** Scratch tables that a visit could not remove, such as one whose tab was closed. */
function LeftOver() {
  const { value: names, again } = useRead(readTables, "");
  const failure = useSignal<ServerError | undefined>(undefined);
  const left = names?.filter(isScratch) ?? [];
  if (left.length === 0) return null;
  const remove = async () => {
    try {
      for (const name of left) await deleteTable(name);
    } catch (error) {
      if (!(error instanceof ServerError)) throw error;
      failure.value = error;
    }
    await again();
  };
  return (
    <div class="notice">
      <p>
        {counted(left.length, "scratch table is", "scratch tables are")} left of earlier visits, or
        in use in another tab: {left.slice(0, 6).join(", ")}
        {left.length > 6 && "…"}
      </p>
      <button type="button" onClick={remove}>
        Remove
      </button>
      {failure.value && <Failure error={failure.value} />}
    </div>
  );
}

function newRun(pattern: Pattern): PlaygroundRun {
  const begun = Date.now();
  const clock = new FakeClock(begun);
  const { account } = session.value!;
  const tables = scratchTables({
    prefix: newScratchPrefix(),
    base: `${location.origin}/${account}`,
    wire,
    aheadMs: () => clock.now() - begun,
  });
  return new PlaygroundRun(pattern, { ...memory({ clock }), tables });
}

/** What cannot be removed now is listed on the first page. */
function abandon(run: PlaygroundRun): void {
  run.close().catch((error) => {
    if (!(error instanceof PortError)) throw error;
  });
}

function Try({ pattern, code }: { pattern: Pattern; code: string }) {
  const current = useSignal<PlaygroundRun | undefined>(undefined);
  const failure = useSignal<ServerError | undefined>(undefined);
  const isBusy = useSignal(false);
  useEffect(
    () => () => {
      if (current.value) abandon(current.value);
    },
    [current],
  );
  const begin = async () => {
    isBusy.value = true;
    if (current.value) abandon(current.value);
    const run = newRun(pattern);
    current.value = run;
    failure.value = undefined;
    try {
      await run.open();
    } catch (error) {
      if (!(error instanceof PortError)) throw error;
      failure.value = new ServerError(error.status, error.code, error.message);
    }
    isBusy.value = false;
  };
  const run = current.value;
  const isOpen = run !== undefined && run.state.value !== "closed";
  return (
    <section class="insight" aria-labelledby="pattern-title">
      <nav class="path" aria-label="Path">
        <a href={screenAddress("playground")}>patterns</a> /
      </nav>
      <div class="insight-head">
        <h1 id="pattern-title">{pattern.title}</h1>
        <span class="space" />
        {isOpen && (
          <button
            type="button"
            onClick={() => {
              abandon(run);
              current.value = undefined;
            }}
          >
            Remove the tables
          </button>
        )}
        {!session.value!.isReadOnly && (
          <button type="button" disabled={isBusy.value} onClick={begin}>
            {isOpen ? "Start over" : "Create the tables"}
          </button>
        )}
      </div>
      <p>{pattern.about}</p>
      {failure.value && <Failure error={failure.value} again={begin} />}
      {session.value!.isReadOnly ? (
        <ReadOnly />
      ) : (
        !isOpen && (
          <p class="quiet">
            The tables are real ones of {session.value!.account}, with names that begin with
            playgroundScratch. They are removed when you leave.
            {pattern.queues && " The queues are in this page."}
          </p>
        )
      )}
      <div class="play">
        {isOpen && <Controls run={run} pattern={pattern} />}
        {isOpen && <Stored shown={run.shown.value} />}
        <section class="play-column" aria-labelledby="code-title">
          <h2 id="code-title">Code</h2>
          <pre class="play-code" tabIndex={0}>
            {code}
          </pre>
        </section>
      </div>
    </section>
  );
}

function Controls({ run, pattern }: { run: PlaygroundRun; pattern: Pattern }) {
  const state = run.state.value;
  const requests = run.requests.value;
  const waiting = requests.find((each) => each.state === "waiting");
  const isRunning = state === "running";
  const step = () => run.step();
  const runOn = () => run.runOn();
  const crash = () => run.crash();
  useCommand("key s", step);
  useCommand("key r", runOn);
  useCommand("key x", crash);
  const { recovery } = pattern;
  const begin = (action: Action) => (
    <button key={action.name} type="button" disabled={isRunning} onClick={() => run.start(action)}>
      {action.name}
    </button>
  );
  return (
    <div class="play-column">
      <section class="play-actions" aria-label="Actions">
        {pattern.actions.map(begin)}
        {recovery && begin(recovery)}
      </section>
      <div class="play-actions">
        <button type="button" class="primary" disabled={!waiting} onClick={step}>
          Step <kbd>s</kbd>
        </button>
        <button type="button" disabled={!isRunning} onClick={runOn}>
          Run on <kbd>r</kbd>
        </button>
        <button type="button" class="danger" disabled={!isRunning} onClick={crash}>
          Crash <kbd>x</kbd>
        </button>
      </div>
      <p role="status">
        {waiting
          ? `Waits to send: ${waiting.words}.`
          : run.outcome.value || (isRunning ? "Running…" : "Choose what the program does.")}
      </p>
      <Requests requests={requests} />
      <Verdicts verdicts={run.shown.value.verdicts} />
    </div>
  );
}

const SIGNS: Readonly<Record<AskedRequest["state"], string>> = {
  waiting: "▷",
  sent: "…",
  answered: "✓",
  refused: "✗",
  "never sent": "∅",
};

function Requests({ requests }: { requests: readonly AskedRequest[] }) {
  const list = useRef<HTMLOListElement>(null);
  useEffect(() => {
    list.current?.scrollTo({ top: list.current.scrollHeight });
  }, [requests]);
  if (requests.length === 0) return null;
  return (
    <section aria-labelledby="requests-title">
      <h2 id="requests-title">Requests</h2>
      <ol class="play-requests" ref={list} tabIndex={0} aria-labelledby="requests-title">
        {requests.map(({ id, words, state, note }) => (
          <li key={id} class={`asked ${state.replace(" ", "-")}`}>
            <span aria-hidden="true">{SIGNS[state]}</span>
            <span class="hidden">{state}:</span>
            <span>
              <code>{words}</code> {note && <span class="quiet">{note}</span>}
            </span>
          </li>
        ))}
      </ol>
    </section>
  );
}

const VERDICTS = {
  holds: { sign: "✓", tone: "free", said: "" },
  "for now": { sign: "◌", tone: "fair", said: "broken for now: " },
  broken: { sign: "✗", tone: "dear", said: "broken: " },
} as const;

function Verdicts({ verdicts }: { verdicts: readonly Verdict[] }) {
  return (
    <section aria-labelledby="invariants-title">
      <h2 id="invariants-title">Invariants</h2>
      <ul class="verdicts" aria-labelledby="invariants-title">
        {verdicts.map(({ says, verdict, evidence }) => {
          const { sign, tone, said } = VERDICTS[verdict];
          return (
            <li key={says} class={`verdict ${tone}`}>
              <span aria-hidden="true">{sign}</span> <span class="hidden">{verdict}: </span>
              {says}
              {evidence !== undefined && ` – ${said}${evidence}`}
            </li>
          );
        })}
      </ul>
    </section>
  );
}

const ROWS_SHOWN = 12;

function Stored({ shown: { tables, queues } }: { shown: Shown }) {
  return (
    <section aria-labelledby="stored-title">
      <h2 id="stored-title">What is stored</h2>
      {[...tables].map(([table, rows]) => (
        <table key={table} class="stored">
          <caption>
            {table}: {counted(rows.filter(({ mark }) => mark !== "gone").length, "row")}
          </caption>
          <thead>
            <tr>
              <th scope="col">PartitionKey</th>
              <th scope="col">RowKey</th>
              <th scope="col">Properties</th>
            </tr>
          </thead>
          <tbody>
            {rows.slice(0, ROWS_SHOWN).map((row, i) => (
              <StoredRow
                key={`${row.row.partitionKey}\n${row.row.rowKey}\n${row.row.etag}`}
                marked={row}
                isFirst={row.row.partitionKey !== rows[i - 1]?.row.partitionKey}
              />
            ))}
            {rows.length > ROWS_SHOWN && (
              <tr>
                <td colSpan={3} class="quiet">
                  and {count(rows.length - ROWS_SHOWN)} more
                </td>
              </tr>
            )}
          </tbody>
        </table>
      ))}
      {[...queues].map(([queue, messages]) => (
        <div key={queue}>
          <p class="stored-queue">
            {queue}, a queue: {counted(messages.length, "message")}
          </p>
          {messages.map((text, i) => (
            <p key={`${i} ${text}`} class="mono quiet">
              {text.slice(0, 160)}
            </p>
          ))}
        </div>
      ))}
    </section>
  );
}

const MARKS = { "": "", new: "+", changed: "●", gone: "−" } as const;
/** What the library keeps for itself in every row, and never interests anybody. */
const HIDDEN = /^rh_[tw]$/;

function StoredRow({ marked, isFirst }: { marked: MarkedRow; isFirst: boolean }) {
  const { row, mark } = marked;
  const properties = Object.entries(row.properties).filter(([name]) => !HIDDEN.test(name));
  return (
    <tr class={`stored-row ${mark}`}>
      <td class="mono">
        {isFirst ? row.partitionKey : <span class="quiet">{row.partitionKey}</span>}
      </td>
      <td class="mono">
        {mark && (
          <>
            <span aria-hidden="true">{MARKS[mark]} </span>
            <span class="hidden">{mark}: </span>
          </>
        )}
        {row.rowKey}
      </td>
      <td>
        {properties.map(([name, { value }]) => (
          <span key={name} class="stored-property">
            <span class="quiet">{name}</span> {String(value).slice(0, 80)}{" "}
          </span>
        ))}
      </td>
    </tr>
  );
}
