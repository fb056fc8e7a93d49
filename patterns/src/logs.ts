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
  /** Several may write at the same time, each to files of its own. Close it, or lose what is buffered. */
  writer(options?: LogWriterOptions): LogWriter<Entry>;
  /**
   * By time as far as each file is; records of one time in any order. A listing for each day, then the
   * files that may hold something, 4 MiB a request. A request that fails fails the whole: there are no
   * silent gaps.
   */
  read(query: LogQuery<Entry>): AsyncIterable<Entry>;
}

/** Declares a log in append blobs: `service/2014/07/31/1800/000001.log`, a folder for each hour in UTC. */
export function logFiles<Entry extends Timed>(
  options: LogDeclaration<Entry>,
): Openable<LogFiles<Entry>> {
  const { container, service } = options;
  if (!/^[A-Za-z0-9][\w.-]*$/.test(service)) {
    const message = "is not letters, digits, and . _ - after the first";
    throw definitionRefused(`The log ${service}`, "service", message);
  }
  assertNames(`The log ${service}`, { container });
  return {
    tables: [],
    open: (database) => {
      const blobs = blobsOf(database);
      return {
        writer: (writerOptions) => new LogWriter(database, blobs, options, writerOptions),
        read: (query) => readLog(blobs, options, query),
      };
    },
  };
}
