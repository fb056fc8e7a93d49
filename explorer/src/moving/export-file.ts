import { type EntityFormat, readRecords, writeCsv } from "@rowhouse/protocol/entity-files";
import type { Row } from "../entities.ts";
import { toLine } from "../entity-json.ts";
import { readEntities, ServerError, wire } from "../session.ts";
import { readEntity } from "../table-facts.ts";
import { costOf, nextOf, READ_PER_REQUEST, ROWS_PER_REQUEST } from "../table-view.ts";
import { chunksOf } from "./chunks.ts";

export interface Page {
  readonly rows: readonly Row[];
  /** Entities that the server examined for it. */
  readonly read: number;
}

/**
 * All that a filter finds, with whole values.
 * @throws ServerError
 */
export async function* readAll(
  table: string,
  filter: string,
  signal: AbortSignal,
): AsyncGenerator<Page> {
  let next: Readonly<Record<string, string>> | undefined = {};
  while (next) {
    const answer = await wire({
      path: `/${table}()`,
      query: { $filter: filter, $top: String(ROWS_PER_REQUEST), ...next },
      headers: { "x-rowhouse-read-max": String(READ_PER_REQUEST) },
      signal,
    });
    const rows = await readEntities(answer);
    yield { rows, read: costOf(answer.headers).read };
    next = nextOf(answer.headers);
  }
}

const READS_AT_ONCE = 4;
const ROWS_AT_ONCE = 200;

/**
 * Rows that were read, whole: those with cut values are read again, and left out where they were deleted meanwhile.
 * @throws ServerError
 */
export async function* readWhole(
  table: string,
  rows: readonly Row[],
  signal: AbortSignal,
): AsyncGenerator<Page> {
  for (let from = 0; from < rows.length && !signal.aborted; from += ROWS_AT_ONCE) {
    const whole: (Row | undefined)[] = rows.slice(from, from + ROWS_AT_ONCE);
    const cut = [...whole.entries()].filter(([, row]) => isCut(row!));
    const work = async () => {
      for (let next = cut.shift(); next; next = cut.shift()) {
        const [i, row] = next;
        whole[i] = await readIfThere(table, row!);
      }
    };
    await Promise.all(Array.from({ length: READS_AT_ONCE }, work));
    yield { rows: whole.filter((row) => row !== undefined), read: cut.length };
  }
}

function isCut({ cells }: Row): boolean {
  return [...cells.values()].some(({ length }) => length !== undefined);
}

async function readIfThere(table: string, row: Row): Promise<Row | undefined> {
  try {
    return (await readEntity(table, row)).row;
  } catch (error) {
    if (error instanceof ServerError && error.status === 404) return undefined;
    throw error;
  }
}

/** The page keeps the file until it is whole. */
const FILE_BYTES_MAX = 2 ** 30;

/**
 * Makes a file of rows, the same that `rowhouse export` makes.
 * @param moved called after each page
 * @throws ServerError, also where the file would be too large for a page
 */
export async function makeFile(
  pages: AsyncIterable<Page>,
  { table, format }: { readonly table: string; readonly format: EntityFormat },
  moved: (page: Page) => void,
): Promise<Blob> {
  const parts: Blob[] = [];
  let bytes = 0;
  for await (const page of pages) {
    const part = new Blob([page.rows.map(toLine).join("")]);
    parts.push(part);
    bytes += part.size;
    if (bytes > FILE_BYTES_MAX)
      throw new ServerError(
        413,
        "FileTooLarge",
        "The file would have more than 1 GiB: take `rowhouse export`, which can be interrupted and continued.",
      );
    moved(page);
  }
  const lines = new Blob(parts);
  if (format === "jsonl") return lines;
  const csv: string[] = [];
  await writeCsv(
    () => readRecords(chunksOf(lines), { format: "jsonl", name: table }),
    (text) => csv.push(text),
  );
  return new Blob(csv);
}
