import {
  type ChangesetOperation,
  changesetBytes,
  changesetType,
  printChangeset,
  readChangesetAnswer,
} from "@rowhouse/protocol/batch-request";
import { entityPath } from "@rowhouse/protocol/entity-url";
import { LIMITS } from "@rowhouse/protocol/limits";
import { type Clock, elapsedMs } from "../clock.ts";
import type { WireResponse } from "../wire/operation.ts";

/** What to do with every entity that a filter finds. */
export interface BulkRequest {
  readonly table: string;
  readonly filter: string;
  /** An entity as JSON without keys, whose properties each found entity gets; undefined: each is deleted. */
  readonly merge: string | undefined;
  /** Only counts what would be done. */
  readonly isDryRun: boolean;
  /** Where an earlier slice ended. */
  readonly next: Readonly<Record<string, string>>;
}

/** What one slice of the work did. */
export interface BulkProgress {
  readonly read: number;
  readonly matched: number;
  readonly changed: number;
  /** Entities that somebody else changed or deleted between being found and being written: left as they are. */
  readonly leftAlone: number;
  /** Of the first that matched. */
  readonly examples: readonly (readonly [partitionKey: string, rowKey: string])[];
  /** Where the next slice begins; undefined: this was the last. */
  readonly next: Readonly<Record<string, string>> | undefined;
  /** Why it ended before its time. The next slice tries the same entities again. */
  readonly failure?: { readonly status: number; readonly code: string; readonly message: string };
}

/** A request to the Table service in the name of a session. */
export type Ask = (request: {
  readonly verb: string;
  /** Below the account. */
  readonly path: string;
  readonly query?: URLSearchParams;
  readonly headers: readonly string[];
  readonly body?: string;
}) => Promise<{ readonly answer: WireResponse; readonly text: string }>;

/** @returns undefined for what is no such request */
export function readBulk(text: string): BulkRequest | undefined {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    return undefined;
  }
  if (typeof value !== "object" || value === null) return undefined;
  const { table, filter, merge, isDryRun, next = {} } = value as Record<string, unknown>;
  if (typeof table !== "string" || !/^[A-Za-z][A-Za-z0-9]{2,62}$/.test(table)) return undefined;
  if (typeof filter !== "string" || typeof isDryRun !== "boolean") return undefined;
  if (merge !== undefined && typeof merge !== "string") return undefined;
  if (typeof next !== "object" || next === null) return undefined;
  const places = Object.entries(next);
  const isPlace = places.every(
    ([name, at]) => /^Next(Partition|Row)Key$/.test(name) && typeof at === "string",
  );
  if (!isPlace) return undefined;
  return { table, filter, merge, isDryRun, next: Object.fromEntries(places) };
}

/** How long a slice takes at most, but for its last page: people see progress, and a caller who left costs no more. */
const SLICE_MS = 1000;
const READ_PER_PAGE = 10_000;
const TRANSACTIONS_AT_ONCE = 8;
const EXAMPLES = 10;

interface Found {
  readonly partitionKey: string;
  readonly rowKey: string;
  readonly etag: string;
}

/**
 * Does a slice of a change to all entities that a filter finds. Nothing is kept between slices: where one ends, another
 * may begin, on another server of the same data, or the whole anew, because what is done is no longer found, or the same
 * change again. Every write has the ETag of the read.
 * @param base the address of the account
 */
export async function workInBulk(
  request: BulkRequest,
  { ask, base, clock }: { ask: Ask; base: string; clock: Clock },
): Promise<BulkProgress> {
  const until = elapsedMs(clock) + SLICE_MS;
  const sum = { read: 0, matched: 0, changed: 0, leftAlone: 0 };
  const examples: (readonly [string, string])[] = [];
  let next: BulkProgress["next"] = request.next;
  do {
    const page = await readPage(request, next, ask);
    if ("failure" in page) return { ...sum, examples, next, failure: page.failure };
    sum.read += page.read;
    sum.matched += page.found.length;
    for (const { partitionKey, rowKey } of page.found.slice(0, EXAMPLES - examples.length))
      examples.push([partitionKey, rowKey]);
    if (!request.isDryRun) {
      const done = await writePage(request, page.found, { ask, base });
      sum.changed += done.changed;
      sum.leftAlone += done.leftAlone;
      if (done.failure) return { ...sum, examples, next, failure: done.failure };
    }
    next = page.next;
  } while (next && elapsedMs(clock) < until);
  return { ...sum, examples, next };
}

type Failure = NonNullable<BulkProgress["failure"]>;

async function readPage(
  { table, filter }: BulkRequest,
  next: Readonly<Record<string, string>>,
  ask: Ask,
): Promise<
  | { readonly failure: Failure }
  | { readonly found: Found[]; readonly read: number; readonly next: BulkProgress["next"] }
> {
  const query = new URLSearchParams({
    ...next,
    ...(filter !== "" && { $filter: filter }),
    $select: "PartitionKey,RowKey,Timestamp",
  });
  const headers = ["Accept", FULL, "x-rowhouse-read-max", String(READ_PER_PAGE)];
  const { answer, text } = await ask({ verb: "GET", path: `${table}()`, query, headers });
  if (answer.status !== 200) return { failure: failureIn(answer.status, text) };
  const { value } = JSON.parse(text) as {
    value: readonly { PartitionKey: string; RowKey: string; "odata.etag": string }[];
  };
  const found = value.map((each) => ({
    partitionKey: each.PartitionKey,
    rowKey: each.RowKey,
    etag: each["odata.etag"],
  }));
  const partition = headerOf(answer, "x-ms-continuation-nextpartitionkey");
  const row = headerOf(answer, "x-ms-continuation-nextrowkey");
  const [, read = "0"] =
    /entities-read=(\d+)/.exec(headerOf(answer, "x-rowhouse-cost") ?? "") ?? [];
  return {
    found,
    read: Number(read),
    next:
      partition === undefined
        ? undefined
        : { NextPartitionKey: partition, ...(row !== undefined && { NextRowKey: row }) },
  };
}

const FULL = "application/json;odata=fullmetadata";

async function writePage(
  { table, merge }: BulkRequest,
  found: readonly Found[],
  { ask, base }: { ask: Ask; base: string },
): Promise<{ changed: number; leftAlone: number; failure?: Failure }> {
  const operations = found.map(({ partitionKey, rowKey, etag }): Keyed => {
    const url = `${base}/${entityPath(table, partitionKey, rowKey)}`;
    const known = { partitionKey, url, ifMatch: etag };
    return merge === undefined
      ? { ...known, method: "DELETE" }
      : { ...known, method: "MERGE", body: merge };
  });
  const groups = groupsOf(operations);
  const sum = { changed: 0, leftAlone: 0 };
  let failure: Failure | undefined;
  const work = async () => {
    for (let group = groups.shift(); group && !failure; group = groups.shift()) {
      const done = await writeGroup(group, ask);
      sum.changed += done.changed;
      sum.leftAlone += done.leftAlone;
      failure ??= done.failure;
    }
  };
  await Promise.all(Array.from({ length: TRANSACTIONS_AT_ONCE }, work));
  return failure ? { ...sum, failure } : sum;
}

interface Keyed extends ChangesetOperation {
  readonly partitionKey: string;
}

/** They come in key order, so those of a partition follow each other. */
function groupsOf(operations: readonly Keyed[]): Keyed[][] {
  const groups: Keyed[][] = [];
  let bytes = 0;
  for (const operation of operations) {
    const last = groups.at(-1);
    const size = changesetBytes(operation);
    const fits =
      last !== undefined &&
      last[0]!.partitionKey === operation.partitionKey &&
      last.length < LIMITS.transactionOperationsMax &&
      bytes + size <= LIMITS.bodyBytesMax;
    if (fits) last.push(operation);
    else groups.push([operation]);
    bytes = fits ? bytes + size : size;
  }
  return groups;
}

async function writeGroup(
  group: readonly Keyed[],
  ask: Ask,
): Promise<{ changed: number; leftAlone: number; failure?: Failure }> {
  const left = [...group];
  while (left.length > 0) {
    const id = crypto.randomUUID();
    const { answer, text } = await ask({
      verb: "POST",
      path: "$batch",
      headers: ["Content-Type", changesetType(id), "Accept", FULL],
      body: printChangeset(left, id),
    });
    const leftAlone = group.length - left.length;
    if (answer.status !== 202)
      return { changed: 0, leftAlone, failure: failureIn(answer.status, text) };
    const done = readChangesetAnswer(text, left.length);
    if (done.kind === "done") return { changed: left.length, leftAlone };
    const { status, code, message, index } = done;
    const isOther = (status === 412 || status === 404) && code !== "TableNotFound";
    if (!isOther || index === undefined || left[index] === undefined)
      return { changed: 0, leftAlone, failure: { status, code, message } };
    left.splice(index, 1);
  }
  return { changed: 0, leftAlone: group.length };
}

function failureIn(status: number, text: string): Failure {
  try {
    const { code, message } = JSON.parse(text)["odata.error"];
    return { status, code: String(code), message: String(message.value).split("\n")[0]! };
  } catch {
    return { status, code: `HTTP ${status}`, message: text.slice(0, 500) };
  }
}

function headerOf({ headers }: WireResponse, wanted: string): string | undefined {
  const at = headers.findIndex((name, i) => i % 2 === 0 && name.toLowerCase() === wanted);
  return at < 0 ? undefined : headers[at + 1];
}
