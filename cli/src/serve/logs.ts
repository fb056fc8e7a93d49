import { dirname } from "node:path";
import { ServiceError } from "@rowhouse/protocol/errors";
import type { Clock } from "@rowhouse/server/clock";
import { EngineError } from "@rowhouse/server/engine/engine";
import { makeFolder } from "@rowhouse/server/engine/make-folder";
import type { Observer } from "@rowhouse/server/http/observer";
import { type Logger, pino } from "pino";
import { messageOf } from "../message-of.ts";

/**
 * Structured logs, a JSON object a line, on standard error: standard output is for what people and
 * scripts wait for. Queries are never logged, they may hold signatures.
 */
export function createLogger(options: { silent: boolean; debug: string | boolean }): Logger {
  // As the emulator has it: silence is for who looks on, and a file that was named gets everything.
  const isWhole = typeof options.debug === "string" || (options.debug && !options.silent);
  const level = isWhole ? "debug" : options.silent ? "error" : "info";
  const destination = typeof options.debug === "string" ? options.debug : 2;
  const stream = openLog(destination);
  // A full disk, or a terminal that is gone: the server serves on. Lines wait for room, as many as may.
  stream.on("error", () => {});
  return pino({ level, base: null }, stream);
}

const UNWRITTEN_BYTES_MAX = 1 << 20;

/** @throws Error when the file cannot be made */
function openLog(destination: string | number) {
  try {
    if (typeof destination === "string") makeFolder(dirname(destination));
    return pino.destination({ dest: destination, sync: true, maxLength: UNWRITTEN_BYTES_MAX });
  } catch (cause) {
    throw new Error(`Cannot write the --debug log: ${messageOf(cause)}`, { cause });
  }
}

/**
 * Logs each request: quietly when it went well, loudly when the fault is ours, also where it stands inside the
 * answer to a batch. An operation that is not implemented (501) is an answer like any other.
 */
export function loggingObserver(log: Logger, faults: FaultLog): Observer {
  const isDebugging = log.isLevelEnabled("debug");
  return {
    refusalsOnly: !isDebugging,
    finished(record) {
      if (record.cause !== undefined && record.errorCode !== "NotImplemented")
        faults.tell("request failed", record.cause, { ...record, cause: undefined });
      else if (isDebugging) log.debug(record, "request");
    },
  };
}

const SAY_AGAIN_MS = 60_000;
/** More kinds at once would be no longer one fault said often. */
const KINDS_MAX = 100;

/**
 * Logs faults of ours. One of the storage, such as a full disk, fails for everybody, and what a fault rule or
 * a target refuses was asked for: such is said once a minute, not for every request.
 */
export class FaultLog {
  readonly #log: Logger;
  readonly #clock: Clock;
  readonly #said = new Map<string, { readonly at: number; unsaid: number }>();

  constructor(log: Logger, clock: Clock) {
    this.#log = log;
    this.#clock = clock;
  }

  /** @param facts about what failed */
  tell(what: string, error: unknown, facts: object = {}): void {
    const isKnown = error instanceof EngineError || error instanceof ServiceError;
    const unsaid = isKnown ? this.#unsaidBefore(what, error) : 0;
    const fault = { ...facts, err: error };
    if (unsaid === undefined) this.#log.debug(fault, what);
    else this.#log.error(unsaid === 0 ? fault : { ...fault, unsaid }, what);
  }

  /** How often this was not said since it was; undefined when it shall not be said now. */
  #unsaidBefore(what: string, { code, message }: EngineError | ServiceError): number | undefined {
    const now = this.#clock.now();
    const kind = `${what} ${code} ${message}`;
    const said = this.#said.get(kind);
    if (said !== undefined && Math.abs(now - said.at) < SAY_AGAIN_MS) {
      said.unsaid++;
      return undefined;
    }
    if (this.#said.size >= KINDS_MAX) this.#said.clear();
    this.#said.set(kind, { at: now, unsaid: 0 });
    return said?.unsaid ?? 0;
  }
}
