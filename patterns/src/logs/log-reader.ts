import { assertSome, validationFailed } from "../errors.ts";
import type { BlobInfo, BlobsPort } from "../ports/blobs.ts";
import { concatenated } from "../ports/edm.ts";
import { isRefusal } from "../ports/port-error.ts";
import { filesOf, folderOf, hourOf, sealedSpan } from "./log-file.ts";
import type { LogDeclaration, Timed } from "./log-format.ts";

export interface LogQuery<Entry> {
  readonly from: Date;
  /** Excluded. */
  readonly to: Date;
  readonly where?: (entry: Entry) => boolean;
  /** Receives lines that are not records; they are skipped. */
  readonly onUnreadable?: (line: string, file: string) => void;
  /** Hours before `from` whose folders other writers put late records in. Default: none. */
  readonly slackHours?: number;
}

interface Source<Entry> {
  readonly entries: AsyncGenerator<Entry>;
  head: Entry;
}

interface Waiting {
  readonly file: BlobInfo;
  readonly startMs: number;
}

/** More than a year. A folder is checked for each hour. */
const SLACK_HOURS_MAX = 10_000;
const CHUNK_BYTES = 4 * 1024 * 1024;
const LINE_FEED = 10;

/**
 * Reads what a service logged in an interval; see `LogFiles.read`. Merges the files by time. A file is opened
 * when the merge reaches its first record, so files written one after the other are read one after the other.
 */
export async function* readLog<Entry extends Timed>(
  blobs: BlobsPort,
  log: LogDeclaration<Entry>,
  query: LogQuery<Entry>,
): AsyncGenerator<Entry> {
  for await (const waiting of hoursOf(blobs, log, query)) {
    yield* merged(waiting, (file) => entriesIn(blobs, log, query, file));
  }
}

/** Merges the entries of files that are sorted by their first times. */
async function* merged<Entry extends Timed>(
  waiting: Waiting[],
  entriesOf: (file: BlobInfo) => AsyncGenerator<Entry>,
): AsyncGenerator<Entry> {
  const open: Source<Entry>[] = [];
  try {
    for (;;) {
      const first = earliest(open);
      const next = waiting[0];
      if (next && (!first || next.startMs <= first.head.at.getTime())) {
        waiting.shift();
        const entries = entriesOf(next.file);
        const { value } = await entries.next();
        if (value) open.push({ entries, head: value });
        continue;
      }
      if (!first) return;
      yield first.head;
      const { value } = await first.entries.next();
      if (value) first.head = value;
      else open.splice(open.indexOf(first), 1);
    }
  } finally {
    for (const { entries } of open) await entries.return(undefined);
  }
}

/** The files of each hour that may hold matching records, sorted by their first times. */
async function* hoursOf<Entry extends Timed>(
  blobs: BlobsPort,
  { container, service }: LogDeclaration<Entry>,
  { from, to, slackHours = 0 }: LogQuery<Entry>,
): AsyncGenerator<Waiting[]> {
  assertSome("The log", { slackHours }, validationFailed, SLACK_HOURS_MAX, 0);
  const [fromMs, toMs] = [Number(from), Number(to)];
  if (Number.isNaN(toMs - fromMs)) {
    throw validationFailed("The log", "from", "from or to is not a date");
  }
  const lastHour = hourOf(toMs - 1);
  for (let hour = hourOf(fromMs) - slackHours; hour <= lastHour; ) {
    // One listing for each day, by the common prefix of its hours.
    const dayEnd = Math.min(lastHour, Math.floor(hour / 24) * 24 + 23);
    const prefix = commonPrefix(folderOf(service, hour), folderOf(service, dayEnd));
    const files = await filesOf(blobs, container, prefix).catch((error) => {
      if (isRefusal(error, 404)) return [];
      throw error;
    });
    for (; hour <= dayEnd; hour++) {
      const folder = folderOf(service, hour);
      const waiting: Waiting[] = [];
      for (const file of files) {
        if (!file.name.startsWith(folder) || file.length === 0) continue;
        const span = sealedSpan(file.metadata);
        if (span && (span.lastMs < fromMs || span.firstMs >= toMs)) continue;
        waiting.push({ file, startMs: span?.firstMs ?? Number.MIN_SAFE_INTEGER });
      }
      if (waiting.length > 0) yield waiting.sort((a, b) => a.startMs - b.startMs);
    }
  }
}

async function* entriesIn<Entry extends Timed>(
  blobs: BlobsPort,
  { container, format }: LogDeclaration<Entry>,
  { from, to, where, onUnreadable }: LogQuery<Entry>,
  file: BlobInfo,
): AsyncGenerator<Entry> {
  for await (const line of linesIn(blobs, container, file)) {
    const entry = format.decode(line);
    if (!entry) onUnreadable?.(line, file.name);
    else if (entry.at >= from && entry.at < to && (where?.(entry) ?? true)) yield entry;
  }
}

/** Reads one piece at a time. A file that is deleted while it is read ends there. */
async function* linesIn(
  blobs: BlobsPort,
  container: string,
  { name, length }: BlobInfo,
): AsyncGenerator<string> {
  const decoder = new TextDecoder();
  let rest = new Uint8Array();
  for (let offset = 0; offset < length; offset += CHUNK_BYTES) {
    const count = Math.min(CHUNK_BYTES, length - offset);
    const content = await blobs.get(container, name, { offset, count });
    if (!content) return;
    const bytes = concatenated([rest, content.body]);
    let start = 0;
    for (let end = bytes.indexOf(LINE_FEED); end >= 0; end = bytes.indexOf(LINE_FEED, start)) {
      yield decoder.decode(bytes.subarray(start, end));
      start = end + 1;
    }
    rest = bytes.slice(start);
  }
  if (rest.length > 0) yield decoder.decode(rest);
}

function earliest<Entry extends Timed>(open: readonly Source<Entry>[]): Source<Entry> | undefined {
  let first = open[0];
  for (const source of open) if (first && source.head.at < first.head.at) first = source;
  return first;
}

function commonPrefix(a: string, b: string): string {
  let length = 0;
  while (length < a.length && a[length] === b[length]) length++;
  return a.slice(0, length);
}
