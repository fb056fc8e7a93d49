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
  /**
   * The whole body, or `undefined` as soon as more than `bytesMax` are announced or have arrived.
   * Answers at once when the bytes are already here.
   * @throws BodyAborted when the client goes away before the end.
   */
  read(bytesMax: number): Uint8Array | undefined | Promise<Uint8Array | undefined>;
  /** The body as it arrives, for content too large to hold. */
  stream(): AsyncIterable<Uint8Array>;
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
