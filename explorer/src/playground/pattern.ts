import type { Database, StoredEntity } from "@rowhouse/patterns";

/** A published pattern, as it can be tried. */
export interface Pattern {
  readonly title: string;
  /** What it is for, and what happens where it is interrupted. */
  readonly about: string;
  readonly queues?: readonly string[];
  /** Creates the tables and puts something into them. */
  prepare(db: Database): Promise<unknown>;
  readonly actions: readonly Action[];
  /** What the program does after a crash, or all the time; without it, nothing is needed. */
  readonly recovery?: Action;
  readonly invariants: readonly Invariant[];
}

export interface Action {
  readonly name: string;
  /** Resolves with what the caller got, in words. */
  run(db: Database): Promise<string>;
}

export interface Invariant {
  readonly says: string;
  /** At rest: once nobody is writing, and no message waits. Until then it may be broken for now. */
  readonly when: "always" | "at rest";
  /** What breaks it, of what is stored. */
  broken(world: World): string | undefined;
}

/** Everything that is stored. */
export interface World {
  readonly tables: ReadonlyMap<string, readonly StoredEntity[]>;
  readonly queues: ReadonlyMap<string, readonly string[]>;
}

export function rowsOf({ tables }: World, table: string): readonly StoredEntity[] {
  return tables.get(table) ?? [];
}

/** The value of a property; "" where the row has none. */
export function valueIn({ properties }: StoredEntity, name: string): string {
  return String(properties[name]?.value ?? "");
}

/** The first that is broken of several claims, each of which says what breaks it or nothing. */
export function firstBroken<Item>(
  items: Iterable<Item>,
  broken: (item: Item) => string | undefined | false,
): string | undefined {
  for (const item of items) {
    const said = broken(item);
    if (said) return said;
  }
  return undefined;
}

export const queuesAreEmpty: Invariant = {
  says: "No message waits",
  when: "at rest",
  broken: ({ queues }) =>
    firstBroken(queues, ([name, { length }]) => length > 0 && `${length} in ${name}`),
};
