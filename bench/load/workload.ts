import type { ResponseReader } from "./response-reader.ts";

/** A client's repeated operation; `workloads.ts` defines the requests of each kind. */
export type WorkloadKind =
  | { readonly kind: "point-query" }
  | { readonly kind: "range-query"; readonly rows: number; readonly selected?: string }
  | { readonly kind: "partition-scan" }
  | { readonly kind: "table-scan" }
  | { readonly kind: "insert"; readonly form?: InsertForm }
  | { readonly kind: "upsert" }
  | { readonly kind: "merge" }
  | { readonly kind: "conditional-update" }
  | { readonly kind: "contended-update"; readonly backsOff: boolean }
  | { readonly kind: "transaction" }
  | { readonly kind: "put-message" }
  | { readonly kind: "receive-message" }
  | { readonly kind: "upload"; readonly bytes: number; readonly blockBytes?: number }
  | { readonly kind: "download"; readonly bytes: number }
  | { readonly kind: "append"; readonly blobs: number }
  | { readonly kind: "mix" }
  /** Inserts the entities themselves, from one transaction of the whole fill on; see `fill.ts`. */
  | { readonly kind: "fill"; readonly order: LoadOrder; readonly firstTransaction: number };

/** By default, 1 KB next to a random existing entity. */
export type InsertForm = "rows of 200 bytes" | "growing keys";

export type LoadOrder = "sorted" | "scattered";

/** As text, or with a body that is not copied. */
export type LoadRequest = string | { readonly head: string; readonly body: Buffer };

export interface Workload {
  /** Whether `answered` reads bodies. */
  readonly readsBodies?: true;
  request(client: Client): LoadRequest;
  answered(client: Client, answer: ResponseReader): Outcome;
}

/** An operation may need several requests: "again" asks for the next one, right away or after a delay. */
export type Outcome = "done" | "again" | "failed" | { readonly againAfterMs: number };

/** What a workload remembers about one client between its requests. */
export class Client {
  readonly index: number;
  /** The last ETag that this client received; "" for none. */
  etag = "";
  /** The state of an operation of several requests; "" between operations. */
  pending = "";
  /** How often the current operation was refused. */
  refusals = 0;
  readonly run: number;
  #sequence = 0;
  #random: number;

  /** `run` differs from run to run, so that the keys one run inserts are new to the next. */
  constructor(index: number, run: number) {
    this.index = index;
    this.run = run;
    this.#random = (Math.imul(index + 1, 0x9e3779b1) ^ Math.imul(run + 1, 0x85ebca6b)) | 1;
  }

  /** A whole number from 0 up to, not including, `limit`; the same series in every repetition. */
  random(limit: number): number {
    this.#random ^= this.#random << 13;
    this.#random ^= this.#random >>> 17;
    this.#random ^= this.#random << 5;
    return (this.#random >>> 0) % limit;
  }

  /** A row key behind all that this client has used. */
  nextRow(): string {
    return `${String(this.run).padStart(6, "0")}-${String(this.#sequence++).padStart(9, "0")}`;
  }

  /** The end of a row key that no other client, run or operation uses. */
  newRowSuffix(): string {
    return `_${this.run}-${this.index}-${this.#sequence++}`;
  }
}
