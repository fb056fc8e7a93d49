import { definitionRefused } from "./errors.ts";
import type { LogDeclaration, Timed } from "./logs/log-format.ts";
import { type LogQuery, readLog } from "./logs/log-reader.ts";
import { LogWriter, type LogWriterOptions } from "./logs/log-writer.ts";
import type { Openable } from "./model/openable.ts";
import { assertNames } from "./model/storage-name.ts";
import { blobsOf } from "./store/connected-ports.ts";

export {
  delimited,
  jsonLines,
  type LogDeclaration as LogFilesOptions,
  type LogFormat,
  type Timed,
} from "./logs/log-format.ts";
export type { LogQuery } from "./logs/log-reader.ts";
export type { LogWriter, LogWriterOptions } from "./logs/log-writer.ts";

export interface LogFiles<Entry extends Timed> {
  /** Several writers may run at once, each with its own files. Close it, or buffered records are lost. */
  writer(options?: LogWriterOptions): LogWriter<Entry>;
  /**
   * In time order as far as each file is; records of the same time come in any order. Lists each day, then
   * reads the files that may hold matching records, 4 MiB per request. If one request fails, the whole read
   * fails: there are no silent gaps.
   */
  read(query: LogQuery<Entry>): AsyncIterable<Entry>;
}

/** Declares a log in append blobs: `service/2014/07/31/1800/000001.log`, one folder per hour in UTC. */
export function logFiles<Entry extends Timed>(
  options: LogDeclaration<Entry>,
): Openable<LogFiles<Entry>> {
  const { container, service } = options;
  if (!/^[A-Za-z0-9][\w.-]*$/.test(service)) {
    const message = "needs a letter or digit, then letters, digits, . _ -";
    throw definitionRefused(`The log ${service}`, "service", message);
  }
  assertNames(`The log ${service}`, { container });
  return {
    tables: [],
    containers: [container],
    open: (session) => {
      const blobs = blobsOf(session);
      return {
        writer: (writerOptions) => new LogWriter(session, blobs, options, writerOptions),
        read: (query) => readLog(blobs, options, query),
      };
    },
  };
}
