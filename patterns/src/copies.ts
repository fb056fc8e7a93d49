import type { EntityDefinition, Infer } from "./entities/entity.ts";
import type { Changes, KeyOf } from "./entities/repository.ts";
import {
  changeStep,
  commitSteps,
  deleteStep,
  keyIn,
  mustRead,
  type OpenEntity,
  openEntity,
  readEntity,
  retryWhileStale,
  type Step,
  updateStep,
  upsertOver,
  withContribution,
} from "./entities/write.ts";
import { refused, validationFailed } from "./errors.ts";
import type { KeyDeclaration } from "./keys/key.ts";
import type { Fields, Row } from "./model/entity-rows.ts";
import type {
  AnyEntity,
  Change,
  Contribution,
  Follower,
  Indexes,
  Snapshot,
} from "./model/follower.ts";
import { type Openable, openable } from "./model/openable.ts";
import { mergeNothing, printKey } from "./ports/mutation.ts";
import type { EntityKey } from "./ports/tables.ts";
import type { Session } from "./store/session.ts";

export interface CopiesOptions<S, SourceKey, T, TargetKey> {
  /** The key of the source that a target copies from, or undefined for none. Pure. */
  readonly via: (target: T) => SourceKey | undefined;
  /** Where the targets of a source may be; those that no longer point to it are left alone. Pure. */
  readonly targets: (source: S) => readonly TargetKey[];
  /** For each copied field of the target, the field of the source. The target's fields must be optional. */
  readonly copy: { readonly [Name in keyof T]?: keyof S };
  /** What happens to copies of a source that is deleted; "reject" forbids the deletion. Default: "keep". */
  readonly onDelete?: "keep" | "clear" | "reject";
}

export interface Copies<S, SourceKey, T, TargetKey> {
  /** Writes the whole target, new or existing, with current copies of its source. 3 R, 5 across partitions. */
  putTarget(target: T): Promise<void>;
  /** Writes the whole source, new or existing, and updates its targets. 2 R and 1 for each target. */
  putSource(source: S): Promise<void>;
  /** @throws not-found. 2 R and 1 for each target; 3 for each in another partition. */
  updateSource(key: SourceKey, change: (current: S) => Changes<S> | undefined): Promise<void>;
  /** False when there is none. @throws validation-failed when a target points to it and "reject" is set. */
  deleteSource(key: SourceKey): Promise<boolean>;
  /**
   * Corrects the copies of one target; safe alongside any writer. True when they were wrong. 3 R, 2 without a
   * source.
   */
  sync(key: TargetKey): Promise<boolean>;
}

/** Fields of one entity copied to others, so that they can be shown without a second read. */
export function copies<
  SF extends Fields,
  SP extends KeyDeclaration,
  SR extends KeyDeclaration,
  SI extends Indexes,
  TF extends Fields,
  TP extends KeyDeclaration,
  TR extends KeyDeclaration,
  TI extends Indexes,
>(
  source: EntityDefinition<string, SF, SP, SR, SI>,
  target: EntityDefinition<string, TF, TP, TR, TI>,
  options: CopiesOptions<Infer<SF>, KeyOf<SP, SR>, Infer<TF>, KeyOf<TP, TR>>,
): Openable<Copies<Infer<SF>, KeyOf<SP, SR>, Infer<TF>, KeyOf<TP, TR>>> {
  const issues = Object.entries(options.copy).flatMap(([to, from]) => {
    const [there, here] = [target.rows.fields[to], source.rows.fields[String(from)]];
    if (there?.isOptional && there.edm === here?.edm) return [];
    return [{ path: to, message: `is not an optional field of ${String(from)}'s type` }];
  });
  if (issues.length > 0) throw refused("invalid-definition", "The set of copies", issues);
  // Rows are decoded by the definitions that the option types were inferred from.
  const untyped = options as unknown as UntypedOptions;
  const name = `copies ${source.name} ${target.name} ${Object.keys(options.copy)}`;
  const own = { source: without(source, name), target: without(target, name) };
  const open = (session: Session) => new OpenCopies(session, own.source, own.target, untyped);
  source.addFollower(
    name,
    followerOf(source, (session, change) => open(session).afterSource(change)),
  );
  target.addFollower(
    name,
    followerOf(target, (session, change) => open(session).afterTarget(change)),
  );
  return openable([...source.tables, ...target.tables], open);
}

/** Other writes of the definition are followed after their commit. */
function followerOf(
  definition: AnyEntity,
  follow: (session: Session, change: Change) => Promise<Contribution>,
): Follower {
  return {
    problems: () => [],
    tables: [],
    follow: ({ session, entity }) => ({
      // The definition in another table is another entity.
      prepare: async (change) => (entity === definition ? follow(session, change) : {}),
    }),
  };
}

/** The definition as the writes of `Copies` see it: they follow themselves. It notices later followers, too. */
function without(entity: AnyEntity, own: string): AnyEntity {
  return {
    name: entity.name,
    table: entity.table,
    rows: entity.rows,
    indexes: entity.indexes,
    get followers() {
      return Object.fromEntries(Object.entries(entity.followers).filter(([name]) => name !== own));
    },
  };
}

interface UntypedOptions {
  readonly via: (target: Row) => Row | undefined;
  readonly targets: (source: Row) => readonly Row[];
  readonly copy: Readonly<Record<string, string>>;
  readonly onDelete?: "keep" | "clear" | "reject";
}

class OpenCopies {
  readonly #session: Session;
  readonly #source: OpenEntity;
  readonly #target: OpenEntity;
  readonly #options: UntypedOptions;

  constructor(session: Session, source: AnyEntity, target: AnyEntity, options: UntypedOptions) {
    this.#session = session;
    this.#source = openEntity(session, source);
    this.#target = openEntity(session, target);
    this.#options = options;
  }

  async putTarget(row: Row): Promise<void> {
    const isCertain = await this.#uncontended(async () => {
      const before = await readEntity(this.#target, row);
      const source = await this.#sourceOf(row);
      const step = await upsertOver(this.#target, before, this.#filled(row, source));
      const isNear = source !== undefined && this.#isNear(row, source.row);
      await commitSteps([isNear ? withTouch(step, source) : step]);
      return isNear || this.#options.via(row) === undefined;
    });
    // A source in another partition may have changed before the target pointed to it.
    if (!isCertain) await this.#follow(row, () => false);
  }

  putSource(row: Row): Promise<void> {
    return this.#writeSource(row, async (before) => upsertOver(this.#source, before, row));
  }

  updateSource(key: Row, change: (current: Row) => Row | undefined): Promise<void> {
    return this.#writeSource(key, async (before) =>
      changeStep(this.#source, before ?? (await mustRead(this.#source, key)), change),
    );
  }

  async deleteSource(key: Row): Promise<boolean> {
    const { onDelete = "keep", targets } = this.#options;
    let far: readonly Row[] = [];
    const found = await this.#uncontended(async () => {
      const before = await readEntity(this.#source, key);
      if (!before) return false;
      const steps = [deleteStep(this.#source, before)];
      far = [];
      if (onDelete !== "keep") {
        const all = targets(before.row);
        // Targets in other partitions that begin to point to the source can only be found after the deletion.
        far = onDelete === "clear" ? all.filter((target) => !this.#isNear(target, before.row)) : [];
        const pointing = await this.#pointingTo(
          before.row,
          all.filter((target) => !far.includes(target)),
        );
        if (onDelete === "reject") assertNone(pointing, before.stored.rowKey);
        for (const target of pointing) steps.push(await this.#step(target, undefined));
      }
      await commitSteps(steps);
      return true;
    });
    for (const target of far) await this.#follow(target, (row) => this.#pointsTo(row, key));
    return found;
  }

  /** What another write of a source has to do after its commit. @throws validation-failed if it must not delete it. */
  async afterSource({ before, after }: Change): Promise<Contribution> {
    const { copy, onDelete = "keep", targets } = this.#options;
    const source = after ?? before?.row;
    if (!source || (!after && onDelete === "keep")) return {};
    const isCopied = (from: string) => !this.#isSame(this.#source, from, before?.row, after);
    if (before && after && !Object.values(copy).some(isCopied)) return {};
    const all = targets(source);
    if (!after && onDelete === "reject") await this.#assertUnused(source, all);
    return {
      committed: async () => {
        for (const key of all) await this.#follow(key, (row) => this.#pointsTo(row, source));
      },
    };
  }

  /** The same for another write of a target: the copies, and what they are copies of, may have changed. */
  async afterTarget({ before, after }: Change): Promise<Contribution> {
    if (!after) return {};
    const isChanged = (name: string) => !this.#isSame(this.#target, name, before?.row, after);
    const [old, via] = [before && this.#options.via(before.row), this.#options.via(after)];
    const isKept = (old && printKey(this.#keyOf(old))) === (via && printKey(this.#keyOf(via)));
    if (isKept && !Object.keys(this.#options.copy).some(isChanged)) return {};
    return { committed: async () => void (await this.#follow(after, () => via !== undefined)) };
  }

  sync(key: Row): Promise<boolean> {
    return this.#follow(key, (row) => this.#options.via(row) !== undefined);
  }

  /**
   * A target whose source may have changed is written even if its copies are right: a writer that read the
   * target earlier, and the source before that change, then loses the race.
   */
  #follow(key: Row, mayHaveChanged: (target: Row) => boolean): Promise<boolean> {
    return this.#uncontended(async () => {
      // The target first: its ETag then guarantees that the source is no older than the one other writers used.
      const before = await readEntity(this.#target, key);
      if (!before) return false;
      const source = await this.#sourceOf(before.row);
      const next = this.#filled(before.row, source);
      const copied = Object.keys(this.#options.copy);
      const isRight = copied.every((name) => this.#isSame(this.#target, name, before.row, next));
      if (isRight && !mayHaveChanged(before.row)) return false;
      await commitSteps([await updateStep(this.#target, before, next, "update")]);
      return !isRight;
    });
  }

  async #writeSource(
    key: Row,
    stepFor: (before: Snapshot | undefined) => Promise<Step | undefined>,
  ): Promise<void> {
    const far = await this.#uncontended(async () => {
      const before = await readEntity(this.#source, key);
      const step = await stepFor(before);
      const after = step?.change.after;
      if (!step || !after) return [];
      const all = this.#options.targets(after);
      const near = all.filter((target) => this.#isNear(target, after));
      const steps = [step];
      const pointing = await this.#pointingTo(after, near);
      for (const target of pointing) steps.push(await this.#step(target, after));
      await commitSteps(steps);
      // A writer that points a target to a source that does not exist yet has no ETag of it to lose a race
      // with.
      const isSure = before || pointing.length === near.length;
      return isSure ? all.filter((target) => !near.includes(target)) : all;
    });
    for (const target of far) await this.#follow(target, (row) => this.#pointsTo(row, key));
  }

  #step(target: Snapshot, source: Row | undefined): Promise<Step> {
    return updateStep(this.#target, target, this.#copied(target.row, source), "update");
  }

  async #pointingTo(source: Row, keys: readonly Row[]): Promise<Snapshot[]> {
    const found = await Promise.all(keys.map((key) => readEntity(this.#target, key)));
    return found.flatMap((target) =>
      target && this.#pointsTo(target.row, source) ? [target] : [],
    );
  }

  async #assertUnused(source: Row, all: readonly Row[]): Promise<void> {
    assertNone(await this.#pointingTo(source, all), this.#keyOf(source).rowKey);
  }

  /** Whether a field is stored alike in both. */
  #isSame({ entity }: OpenEntity, name: string, a: Row | undefined, b: Row | undefined): boolean {
    const [one, other] = [a?.[name] ?? undefined, b?.[name] ?? undefined].map(
      (value) => value !== undefined && entity.rows.fields[name]!.encode(value).value,
    );
    return one === other;
  }

  #pointsTo(target: Row, source: Row): boolean {
    const via = this.#options.via(target);
    return via !== undefined && printKey(this.#keyOf(via)) === printKey(this.#keyOf(source));
  }

  #keyOf(source: Row): EntityKey {
    return keyIn(this.#source, source);
  }

  async #sourceOf(target: Row): Promise<Snapshot | undefined> {
    const via = this.#options.via(target);
    return via && readEntity(this.#source, via);
  }

  /** A target whose source is gone keeps its copies or loses them, depending on `onDelete`. */
  #filled(target: Row, source: Snapshot | undefined): Row {
    const isGone = !source && this.#options.via(target) !== undefined;
    if (isGone && (this.#options.onDelete ?? "keep") === "keep") return target;
    return this.#copied(target, source?.row);
  }

  #copied(target: Row, source: Row | undefined): Row {
    const values = Object.entries(this.#options.copy).map(([to, from]) => [to, source?.[from]]);
    return { ...target, ...Object.fromEntries(values) };
  }

  /** Whether one transaction can hold both. */
  #isNear(target: Row, source: Row): boolean {
    return (
      this.#source.entity.table === this.#target.entity.table &&
      this.#source.entity.rows.partition.encode(source) ===
        this.#target.entity.rows.partition.encode(target)
    );
  }

  #uncontended<Result>(attempt: () => Promise<Result>): Promise<Result> {
    return retryWhileStale(this.#session, {}, attempt);
  }
}

/** @throws validation-failed when a target points to the source. */
function assertNone([first]: readonly Snapshot[], source: string): void {
  if (!first) return;
  throw validationFailed(source, "onDelete", `${first.stored.rowKey} still points to it`);
}

/** Makes the target's transaction fail unless its source is the version that was read. */
function withTouch(step: Step, { stored }: Snapshot): Step {
  const touch = mergeNothing(stored, stored.etag);
  return withContribution(step, { mutations: [touch], explain: async () => "retry" });
}
