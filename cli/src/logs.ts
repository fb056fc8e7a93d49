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
export function loggingObserver(log: Logger): Observer {
  const isDebugging = log.isLevelEnabled("debug");
  return {
    refusalsOnly: !isDebugging,
    finished(record) {
      if (record.status >= 500 && record.status !== 501)
        log.error({ ...record, cause: undefined, err: record.cause }, "request failed");
      else if (isDebugging) log.debug(record, "request");
    },
  };
}
