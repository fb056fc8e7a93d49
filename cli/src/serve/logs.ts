import { dirname } from "node:path";
import { ServiceError } from "@rowhouse/protocol/errors";
import type { Clock } from "@rowhouse/server/clock";
import { EngineError } from "@rowhouse/server/engine/engine";
import { makeFolder } from "@rowhouse/server/engine/make-folder";
import { describeKey } from "@rowhouse/server/stored-key";
import type { Observer } from "@rowhouse/server/wire/observer";
import { type Logger, pino } from "pino";
import { messageOf } from "../message-of.ts";

/**
 * Structured logs, one JSON object per line, on standard error: standard output carries the lines that people and
 * scripts wait for. Query strings are never logged, because they may contain signatures.
 */
export function createLogger(options: { silent: boolean; debug: string | boolean }): Logger {
  // As with the emulator, --silent affects the terminal only: a --debug file gets everything.
  const isWhole = typeof options.debug === "string" || (options.debug && !options.silent);
  const level = isWhole ? "debug" : options.silent ? "error" : "info";
  const destination = typeof options.debug === "string" ? options.debug : 2;
  const stream = openLog(destination);
  // If the disk is full or the terminal is gone, the server keeps serving. Unwritten lines wait, up to a limit.
  stream.on("error", () => {});
  return pino({ level, base: null }, stream);
}

const UNWRITTEN_BYTES_MAX = 1 << 20;

/** @throws Error if the file cannot be created. */
function openLog(destination: string | number) {
  try {
    if (typeof destination === "string") makeFolder(dirname(destination));
    // Names of accounts, tables and keys are for this user alone. An existing file keeps its mode.
    const mode = 0o600;
    return pino.destination({
      dest: destination,
      sync: true,
      mode,
      maxLength: UNWRITTEN_BYTES_MAX,
    });
  } catch (cause) {
    throw new Error(`Cannot write the --debug log: ${messageOf(cause)}`, { cause });
  }
}

/**
 * Logs every request at debug level, and requests that failed through a fault of the server as errors, also if the
 * failure is inside the response to a batch. An operation that is not implemented (501) is not a fault.
 */
export function loggingObserver(log: Logger, faults: FaultLog): Observer {
  const isDebugging = log.isLevelEnabled("debug");
  return {
    refusalsOnly: !isDebugging,
    finished(record) {
      if (record.cause !== undefined && record.errorCode !== "NotImplemented")
        faults.report("request failed", record.cause, { ...record, cause: undefined });
      else if (isDebugging) log.debug(record, "request");
    },
  };
}

const REPEAT_MS = 60_000;
/** With more kinds than this, the log no longer repeats one fault. */
const KINDS_MAX = 100;

/**
 * Logs faults of the server. A storage fault, such as a full disk, fails every request, and what a fault rule or a
 * target refuses is refused on purpose: each of these is logged once a minute, not for every request.
 */
export class FaultLog {
  readonly #log: Logger;
  readonly #clock: Clock;
  readonly #logged = new Map<string, { readonly at: number; omitted: number }>();

  constructor(log: Logger, clock: Clock) {
    this.#log = log;
    this.#clock = clock;
  }

  /** @param facts about the operation that failed */
  report(what: string, error: unknown, facts: object = {}): void {
    const isKnown = error instanceof EngineError || error instanceof ServiceError;
    const entry = damagedEntry(error);
    const omitted = isKnown ? this.#omittedBefore(what, error, entry) : 0;
    if (error instanceof ServiceError && error.cause === undefined) {
      // Refused on purpose, by a target or a fault rule: nothing failed, and a stack would say where.
      const refusal = { ...facts, code: error.code, reason: error.message, omitted };
      if (omitted === undefined) this.#log.debug(refusal, "request refused");
      else this.#log.warn(refusal, "request refused");
      return;
    }
    const fault = { ...facts, entry, err: error };
    if (omitted === undefined) this.#log.debug(fault, what);
    else this.#log.error(omitted === 0 ? fault : { ...fault, omitted }, what);
  }

  /** How many repetitions have been omitted since this was last logged; undefined if this one is omitted, too. */
  #omittedBefore(
    what: string,
    { code, message }: EngineError | ServiceError,
    entry: string | undefined,
  ): number | undefined {
    const now = this.#clock.now();
    const kind = `${what} ${code} ${message} ${entry}`;
    const logged = this.#logged.get(kind);
    if (logged !== undefined && Math.abs(now - logged.at) < REPEAT_MS) {
      logged.omitted++;
      return undefined;
    }
    if (this.#logged.size >= KINDS_MAX) this.#logged.clear();
    this.#logged.set(kind, { at: now, omitted: 0 });
    return logged?.omitted ?? 0;
  }
}

/** What is damaged, if the error or what caused it names an entry. */
function damagedEntry(error: unknown): string | undefined {
  if (error instanceof EngineError && error.key) return describeKey(error.key);
  return error instanceof Error && error.cause !== undefined
    ? damagedEntry(error.cause)
    : undefined;
}
