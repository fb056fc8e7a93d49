import type { BodySource } from "../wire/body-source.ts";
/** The verbs that any of the services knows. */
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

/** One HTTP request as a listener passes it on: nothing decoded, nothing decided. */
export interface RawRequest {
  readonly verb: string;
  /** Origin-form target, exactly as sent. */
  readonly target: string;
  readonly headers: Headers;
  readonly secure: boolean;
  readonly remoteAddress: string;
  /** Whether this is the first request of its connection, where there are connections. */
  readonly opensConnection?: boolean;
  /** How long the lane held the request until its body was here too, in milliseconds. Default 0. */
  readonly heldMs?: number;
  /** Receives the account once the caller may act for it; "" before. */
  readonly peer?: { account: string } | undefined;
  readonly body: BodySource;
}

/** A body that has arrived whole. */
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

  reserve(): void {}
}

/** The headers of a request, however a listener stores them. */
export interface Headers {
  /** Alternating names and values, in the order sent. */
  readonly raw: readonly string[];
  /** The last value sent under this lower-case name. */
  get(name: string): string | undefined;
}

/** A flat list; names are lower-cased once per request. */
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

  isRepeated(name: string): boolean {
    return this.#names.indexOf(name) !== this.#names.lastIndexOf(name);
  }
}

function lowerNames(raw: readonly string[]): string[] {
  const names: string[] = [];
  for (let i = 0; i < raw.length; i += 2) names.push(raw[i]!.toLowerCase());
  return names;
}
