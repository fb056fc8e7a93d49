import type { KeyDeclaration } from "../keys/key.ts";
import type { EntryOptions } from "../model/entry-options.ts";
import type { Index } from "../model/follower.ts";

/**
 * How entries follow their base. `guarded`: the writer updates them, and a worker if the writer crashes.
 * `inline`: the writer updates them; the scrub finds what a crash left. `queued`: a worker updates them, soon.
 */
export type WriteMode = "guarded" | "inline" | "queued";

export interface RemoteOptions<
  P extends KeyDeclaration,
  R extends KeyDeclaration,
  Unique extends boolean,
  E extends string = string,
> extends EntryOptions<E> {
  /** Default: the entity's own table, whose keys must then begin with another literal. */
  readonly table?: string;
  readonly partition: P;
  /** Unless the index is unique, the two keys include both keys of the base. */
  readonly row: R;
  /** At most one entity of all partitions has the value. */
  readonly unique?: Unique;
  /** Default: `guarded` if the database has queues, otherwise `inline`. */
  readonly mode?: WriteMode;
  /** The queue for the messages of the guarded and queued modes. Default: "index-repairs". */
  readonly queue?: string;
  /** Whether verified reads that meet an entry without an entity request a repair. Default: false. */
  readonly repairOnRead?: boolean;
  /** What a write does when no message can be sent. Default: "fail". */
  readonly withoutQueue?: "fail" | "inline";
  /** Default: 20, 60 and 90 seconds. */
  readonly timing?: Partial<Timing>;
}

export interface Timing {
  /** A writer claims and commits within this time, or it starts over. */
  readonly deadlineMs: number;
  /** How long an entry must be untouched before it may be deleted or taken over; more than `deadlineMs`. */
  readonly settleMs: number;
  /** When a worker takes over for a writer that did not finish; more than `settleMs`. */
  readonly tripwireMs: number;
}

/** A declared remote index, reduced to what its entries depend on. */
export interface RemoteDeclaration extends Index {
  readonly options: RemoteOptions<KeyDeclaration, KeyDeclaration, boolean>;
  readonly timing: Timing;
}
