import type { AnyEntity } from "./entity.ts";
import type { Follower, FollowerContext, OpenFollower } from "./follower.ts";

/**
 * What the compiler knows of an index. A kind is an interface whose `api` is written in terms of
 * `this["entity"]` and `this["partition"]`, which the entity fills in; so an index kind can be added
 * without touching the core.
 */
export interface IndexKind {
  /** The fields of the entity. */
  readonly entity: unknown;
  /** The declaration of the entity's partition key. */
  readonly partition: unknown;
  /** What stands under `repository.by.<name>`. */
  readonly api: unknown;
}

/** A follower that can be queried under its name. */
export abstract class Index<Kind extends IndexKind = IndexKind> implements Follower {
  /** For the compiler only. */
  get kind(): Kind {
    throw new TypeError("An index's kind exists for the compiler only.");
  }

  readonly tables: readonly string[] = [];

  abstract problems(entity: AnyEntity, name: string): string[];
  abstract follow(context: FollowerContext): OpenIndex;
}

export interface OpenIndex extends OpenFollower {
  readonly api: unknown;
}

export type Indexes = Readonly<Record<string, Index>>;

export type IndexApi<I, T, P> =
  I extends Index<infer Kind>
    ? (Kind & { readonly entity: T; readonly partition: P })["api"]
    : never;
