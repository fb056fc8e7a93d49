import { FORMAT, VERSION } from "../recording.ts";

/**
 * One recording from those that several processes wrote at the same time: their lines in the order of time. Each line
 * contains what differs from the line before it, so it is told anew what that is.
 * @param recordings the lines of each, as for `readRecording`; of the current format if there are several
 */
export function* joinRecordings(recordings: readonly Iterable<string>[]): Iterable<string> {
  const [only] = recordings;
  if (only && recordings.length === 1) {
    yield* only;
    return;
  }
  const parts = recordings.map((lines, i) => new Part(lines, i));
  yield `["${FORMAT}",${VERSION}]`;
  let at = 0;
  let origin = "";
  for (let next = earliest(parts); next; next = earliest(parts)) {
    const event = next.take();
    if (event.origin !== origin) {
      origin = event.origin;
      yield origin;
    }
    event.fields[1] = event.at - at;
    at = event.at;
    yield JSON.stringify(event.fields);
  }
  yield* joinCounts(parts.flatMap(({ counts }) => counts));
  const endings = parts.map(({ ending }) => ending);
  // Without this line, it is cut off: a process was killed.
  if (endings.includes(undefined)) return;
  yield JSON.stringify(["end", 0, endings.includes(1) ? 1 : 0]);
}

function earliest(parts: readonly Part[]): Part | undefined {
  let found: Part | undefined;
  for (const part of parts) {
    if (part.next && (!found?.next || part.next.at < found.next.at)) found = part;
  }
  return found;
}

interface Timed {
  readonly at: number;
  /** The line that names its client, account and table. */
  readonly origin: string;
  /** Complete, except for the time. */
  readonly fields: unknown[];
}

/** One of the recordings: its next event, and in the end its counts. */
class Part {
  next: Timed | undefined;
  readonly counts: unknown[][] = [];
  /** Whether it was full, as recorded; undefined if it ended without saying so. */
  ending: unknown;
  readonly #lines: Iterator<string>;
  readonly #number: number;
  #at = 0;
  #origin = "";
  #partitionKey: unknown;
  #count = 0;
  #damaged = 0;

  constructor(lines: Iterable<string>, number: number) {
    this.#lines = lines[Symbol.iterator]();
    this.#number = number + 1;
    this.#advance();
  }

  take(): Timed {
    const taken = this.next!;
    this.#advance();
    return taken;
  }

  #advance(): void {
    for (;;) {
      const { done, value } = this.#lines.next();
      if (done) {
        this.next = undefined;
        return;
      }
      const event = this.#read(value);
      if (event) {
        this.next = event;
        return;
      }
    }
  }

  /** @throws Error for damage before the last line, and for other formats */
  #read(line: string): Timed | undefined {
    if (this.#damaged > 0)
      throw new Error(`Line ${this.#damaged} of recording ${this.#number} is damaged.`);
    this.#count++;
    if (this.#count === 1) {
      if (line === `["${FORMAT}",${VERSION}]`) return undefined;
      throw new Error(`Recording ${this.#number} does not have format ${VERSION}.`);
    }
    if (line === "") return undefined;
    const fields = parsed(line);
    if (fields) return this.#event(line, fields);
    this.#damaged = this.#count;
    return undefined;
  }

  #event(line: string, fields: unknown[]): Timed | undefined {
    switch (fields[0]) {
      case "o":
        this.#origin = line;
        return undefined;
      case "c":
      case "a":
        this.counts.push(fields);
        return undefined;
      case "end":
        this.ending = fields[2];
        return undefined;
      case "p":
        fields[4] ??= this.#partitionKey;
        this.#partitionKey = fields[4];
        break;
      case "q":
        if (fields[3] === 0) fields[3] = this.#partitionKey;
        this.#partitionKey = fields[3];
    }
    this.#at += Number(fields[1]);
    return { at: this.#at, origin: this.#origin, fields };
  }
}

function parsed(line: string): unknown[] | undefined {
  try {
    const fields: unknown = JSON.parse(line);
    return Array.isArray(fields) ? fields : undefined;
  } catch {
    return undefined;
  }
}

/** How many of a line's first fields name what the numbers after them count. */
const NAMED_BY: Readonly<Record<string, number>> = { c: 4, a: 2 };

/** One line for each client and agent, with the sums of its counts. */
function joinCounts(counts: readonly unknown[][]): string[] {
  const joined = new Map<string, unknown[]>();
  for (const fields of counts) {
    const names = NAMED_BY[String(fields[0])] ?? fields.length;
    const key = JSON.stringify(fields.slice(0, names));
    const known = joined.get(key);
    const sums = fields.map((field, i) =>
      known && i >= names ? Number(known[i]) + Number(field) : field,
    );
    joined.set(key, sums);
  }
  return [...joined.values()].map((fields) => JSON.stringify(fields));
}
