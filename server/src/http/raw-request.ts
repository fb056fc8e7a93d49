/** The verbs that some service knows. */
export const KNOWN_VERBS: ReadonlySet<string> = new Set([
  "GET",
  "HEAD",
  "POST",
  "PUT",
  "DELETE",
  "MERGE",
  "PATCH",
  "OPTIONS",
]);

/** One HTTP request as a listener hands it over: nothing decoded, nothing decided. */
export interface RawRequest {
  readonly verb: string;
  /** Origin-form target, exactly as sent. */
  readonly target: string;
  readonly headers: Headers;
  readonly secure: boolean;
  readonly remoteAddress: string;
  /** Whether it is the first of its connection, where there are connections. */
  readonly opensConnection?: boolean;
  readonly body: BodySource;
}

export interface BodySource {
  /** How many bytes there are; undefined where they come in chunks, whose number only their end tells. */
  readonly bytes: number | undefined;
  /**
   * The whole body, or `undefined` as soon as more than `bytesMax` are announced or have arrived. More may
   * be asked for then. Answers at once when the bytes are already here.
   * @throws BodyAborted when the client goes away before the end.
   */
  read(bytesMax: number): Uint8Array | undefined | Promise<Uint8Array | undefined>;
  /**
   * Puts what comes next of the body where it is told, for content too large to hold. The memory is
   * the body's until this answers. More may be asked for before that, and is filled in that order: what
   * arrives then never waits for its reader.
   * @returns how many bytes were put there: fewer than there is room for only where the body ends
   * @throws BodyAborted when the client goes away before the end.
   */
  fill(memory: Uint8Array): number | Promise<number>;
}

/** A body that is all here. */
export class WholeBody implements BodySource {
  readonly #bytes: Uint8Array;
  #at = 0;

  constructor(bytes: Uint8Array) {
    this.#bytes = bytes;
  }

  get bytes(): number {
    return this.#bytes.length;
  }

  read(bytesMax: number): Uint8Array | undefined {
    return this.#bytes.length > bytesMax ? undefined : this.#bytes;
  }

  fill(memory: Uint8Array): number {
    const taken = this.#bytes.subarray(this.#at, this.#at + memory.length);
    memory.set(taken);
    this.#at += taken.length;
    return taken.length;
  }
}

/** Fills memory from parts of any length. */
export class PartsFiller implements Pick<BodySource, "fill"> {
  readonly #parts: AsyncIterator<Uint8Array>;
  #rest: Uint8Array = new Uint8Array(0);
  #last: Promise<number> = Promise.resolve(0);

  constructor(parts: AsyncIterable<Uint8Array>) {
    this.#parts = parts[Symbol.asyncIterator]();
  }

  fill(memory: Uint8Array): Promise<number> {
    this.#last = this.#last.then(() => this.#fill(memory));
    return this.#last;
  }

  /** Passes over what is left. */
  async discard(): Promise<void> {
    await this.#last;
    while (!(await this.#parts.next()).done);
  }

  async #fill(memory: Uint8Array): Promise<number> {
    let filled = 0;
    while (filled < memory.length) {
      if (this.#rest.length === 0) {
        const next = await this.#parts.next();
        if (next.done) break;
        this.#rest = next.value;
      }
      const taken = this.#rest.subarray(0, memory.length - filled);
      memory.set(taken, filled);
      filled += taken.length;
      this.#rest = this.#rest.subarray(taken.length);
    }
    return filled;
  }
}

/** The client left before its request was whole: nobody is there to answer. */
export class BodyAborted extends Error {
  constructor() {
    super("The client closed the connection before its request body was complete.");
    this.name = "BodyAborted";
  }
}

/** The headers of a request, however a listener keeps them. */
export interface Headers {
  /** Names and values in turn, as they came. */
  readonly raw: readonly string[];
  /** The last value sent under this lower-case name. */
  get(name: string): string | undefined;
}

/** A flat list; names are lowered once per request. */
export class HeaderList implements Headers {
  readonly raw: readonly string[];
  readonly #names: readonly string[];

  constructor(raw: readonly string[]) {
    this.raw = raw;
    this.#names = lowerNames(raw);
  }

  get(name: string): string | undefined {
    const at = this.#names.lastIndexOf(name);
    return at < 0 ? undefined : this.raw[2 * at + 1];
  }
}

function lowerNames(raw: readonly string[]): string[] {
  const names: string[] = [];
  for (let i = 0; i < raw.length; i += 2) names.push(raw[i]!.toLowerCase());
  return names;
}
