import type { Clock } from "@rowhouse/server/clock";
import { EngineError } from "@rowhouse/server/engine/engine";
import type { Observer } from "@rowhouse/server/http/observer";
import { type Logger, pino } from "pino";

/**
 * Structured logs, a JSON object a line, on standard error: standard output is for what people and
 * scripts wait for. Queries are never logged, they may hold signatures.
 */
export function createLogger(options: { silent: boolean; debug: string | boolean }): Logger {
  const level = options.silent ? "error" : options.debug ? "debug" : "info";
  const destination = typeof options.debug === "string" ? options.debug : 2;
  return pino(
    { level, base: null },
    pino.destination({ dest: destination, mkdir: true, sync: true }),
  );
}

/**
 * Logs each request: quietly when it went well, loudly when the fault is ours. An operation that is
 * not implemented (501) is an answer like any other.
 */
export function loggingObserver(log: Logger, clock: Clock): Observer {
  const isDebugging = log.isLevelEnabled("debug");
  const faults = new StorageFaults(clock);
  return {
    refusalsOnly: !isDebugging,
    finished(record) {
      if (record.status < 500 || record.status === 501) {
        if (isDebugging) log.debug(record, "request");
        return;
      }
      const { cause } = record;
      const unsaid = cause instanceof EngineError ? faults.unsaidBefore(cause) : 0;
      const fault = { ...record, cause: undefined, err: cause };
      if (unsaid === undefined) {
        if (isDebugging) log.debug(fault, "request failed");
      } else log.error(unsaid === 0 ? fault : { ...fault, unsaid }, "request failed");
    },
  };
}

const SAY_AGAIN_MS = 60_000;
/** More kinds at once would be no longer one fault said often. */
const FAULTS_MAX = 100;

/** What fails for everybody, such as writing to a full disk, is said once a minute, not for every request. */
class StorageFaults {
  readonly #clock: Clock;
  readonly #said = new Map<string, { readonly at: number; unsaid: number }>();

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** How often this fault was not said since it was; undefined when it shall not be said now. */
  unsaidBefore({ code, message }: EngineError): number | undefined {
    const now = this.#clock.now();
    const fault = `${code} ${message}`;
    const said = this.#said.get(fault);
    if (said !== undefined && Math.abs(now - said.at) < SAY_AGAIN_MS) {
      said.unsaid++;
      return undefined;
    }
    if (this.#said.size >= FAULTS_MAX) this.#said.clear();
    this.#said.set(fault, { at: now, unsaid: 0 });
    return said?.unsaid ?? 0;
  }
}
