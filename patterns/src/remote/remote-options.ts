import type { KeyDeclaration } from "../keys/key.ts";
import type { Index } from "../model/entity-index.ts";
import type { EntryOptions } from "../model/entry.ts";

/**
 * How entries follow their base: `guarded` (the writer does it, and a worker if the writer dies), `inline`
 * (the writer; what a dead one left is found by the scrub) or `queued` (a worker does it, soon).
 */
export type WriteMode = "guarded" | "inline" | "queued";

export interface RemoteOptions<
  P extends KeyDeclaration,
  R extends KeyDeclaration,
  Unique extends boolean,
> extends EntryOptions {
  /** Default: the entity's own table; its keys must then begin with another literal. */
  readonly table?: string;
  readonly partition: P;
  /** Unless unique, the two keys name the base's two keys as well. */
  readonly row: R;
  /** At most one entity has the value, in whatever partition it is. */
  readonly unique?: Unique;
  /** `guarded` where the database has queues, else `inline`. */
  readonly mode?: WriteMode;
  /** Where the messages of the guarded and queued modes go. Default: "index-repairs". */
  readonly queue?: string;
  /** Verified reads that meet an entry without an entity have it repaired. Default: false. */
  readonly repairOnRead?: boolean;
  /** What a write does while no message can be sent. Default: "fail". */
  readonly withoutQueue?: "fail" | "inline";
  /** Default: 20, 60 and 90 seconds. */
  readonly timing?: Partial<Timing>;
}

export interface Timing {
  /** A writer claims and commits within this time, or starts over. */
  readonly deadlineMs: number;
  /** An entry may be deleted or taken over when nobody touched it for this long; more than `deadlineMs`. */
  readonly settleMs: number;
  /** When a worker looks after a writer that did not report back; more than `settleMs`. */
  readonly tripwireMs: number;
}

/** A declared remote index, as far as its entries depend on it. */
export interface RemoteDeclaration extends Index {
  readonly options: RemoteOptions<KeyDeclaration, KeyDeclaration, boolean>;
  readonly timing: Timing;
}
