import { bulkDelete } from "./bulk-delete.ts";
import type { EntityDefinition, Infer } from "./entities/entity.ts";
import { EntityRepository, type KeyOf, type Repository } from "./entities/repository.ts";
import {
  commitSteps,
  deleteStep,
  insertStep,
  openEntity,
  readEntity,
  retryWhileStale,
  Stale,
  withContribution,
} from "./entities/write.ts";
import { refused, tableError, validationFailed } from "./errors.ts";
import { type KeyDeclaration, type KeyPart, Segment } from "./keys/key.ts";
import type { KeyValues } from "./keys/key-shape.ts";
import { endOf } from "./keys/text.ts";
import { describeSegment } from "./model/declared-index.ts";
import type { Fields, Row } from "./model/entity-rows.ts";
import type { AnyEntity, Indexes } from "./model/follower.ts";
import { type Openable, openable } from "./model/openable.ts";
import { mergeNothing, printKey } from "./ports/mutation.ts";
import { pagesOf } from "./query/pages.ts";
import type { Saved } from "./query/query.ts";
import type { Session } from "./store/session.ts";

export interface Family<T, P extends KeyDeclaration, R extends KeyDeclaration, C, Children> {
  /** The parent and all its children. 1 R for up to 999 children, 1 E each. */
  withChildren(key: KeyOf<P, R>): Promise<ParentWithChildren<T, C> | undefined>;
  /** @throws not-found without the parent, unique-violation when the child exists. 1 R, 2 E. */
  addChild(child: C): Promise<Saved<C>>;
  /**
   * Deletes the children, then the parent. A child added in the meantime is deleted as well. After a crash, run
   * it again. False when there is nothing to delete.
   */
  deleteCascade(key: KeyOf<P, R>): Promise<boolean>;
  /** The children's repository. It inserts without checking that there is a parent. */
  readonly children: Children;
}

export interface ParentWithChildren<T, C> {
  readonly parent: Saved<T>;
  readonly children: Saved<C>[];
}

/** A parent and its children in one partition, read in one request: a child's key is its parent's key and more. */
export function family<
  F extends Fields,
  P extends KeyDeclaration,
  R extends KeyDeclaration,
  I extends Indexes,
  CF extends Fields,
  CR extends KeyDeclaration,
>(
  parent: EntityDefinition<string, F, P, R, I>,
  child: EntityDefinition<string, CF, P, CR, Readonly<Record<never, never>>>,
): Openable<
  Family<Infer<F>, P, R, Infer<CF>, Repository<Infer<CF>, P, CR, Readonly<Record<never, never>>>>
> {
  const problems = problemsOf(parent, child);
  if (problems.length > 0) {
    const issues = problems.map((message) => ({ path: child.name, message }));
    throw refused("invalid-definition", `A child of ${parent.name}`, issues);
  }
  return openable([parent.table], (session) => new OpenFamily(session, parent, child));
}

function problemsOf(parent: AnyEntity, child: AnyEntity): string[] {
  const problems: string[] = [];
  const own = parent.rows.row;
  const shape = ({ partition: { layout, parts } }: AnyEntity["rows"]) =>
    [layout, ...parts.map(print)].join();
  if (parent.table !== child.table) problems.push("they are in different tables");
  if (shape(parent.rows) !== shape(child.rows)) problems.push("their partition keys differ");
  if (
    own.layout !== child.rows.row.layout ||
    own.parts.length === child.rows.row.parts.length ||
    own.parts.some((part, i) => print(part) !== print(child.rows.row.parts[i]))
  ) {
    problems.push("its row key does not begin with the parent's");
  }
  if (own.segments.some(({ form }) => form !== "fixed")) {
    problems.push("the parent's row key has no fixed width, so another parent could sort between");
  }
  if (Object.keys({ ...child.indexes, ...child.followers }).length > 0) {
    problems.push("children cannot have indexes: they are deleted in bulk");
  }
  return problems;
}

function print(part: KeyPart | undefined): string | undefined {
  return JSON.stringify(part instanceof Segment ? describeSegment(part) : part);
}

class OpenFamily {
  readonly children: EntityRepository;
  readonly #session: Session;
  readonly #parent: AnyEntity;
  readonly #child: AnyEntity;

  constructor(session: Session, parent: AnyEntity, child: AnyEntity) {
    this.#session = session;
    this.#parent = parent;
    this.#child = child;
    this.children = new EntityRepository(session, child);
  }

  async withChildren(key: KeyValues): Promise<{ parent: Row; children: Row[] } | undefined> {
    const { partitionKey, rowKey, end } = this.#place(key);
    let parent: Row | undefined;
    const children: Row[] = [];
    const range = { partitionKey, rows: { from: rowKey, to: end } };
    for await (const { entities } of pagesOf(this.#session, this.#parent.table, range)) {
      for (const stored of entities) {
        const child = stored.rowKey === rowKey ? undefined : this.#child.rows.decode(stored);
        if (child) children.push(child);
        if (stored.rowKey === rowKey) parent = this.#parent.rows.decode(stored);
      }
    }
    return parent && { parent, children };
  }

  async addChild(child: Row): Promise<Row> {
    const place = this.#place(child);
    const { rowKey, start } = place;
    const step = await insertStep(openEntity(this.#session, this.#child), child);
    if (!step.lead.rowKey.startsWith(start)) {
      throw validationFailed(step.lead.rowKey, "key", `it does not begin with ${start}`);
    }
    // Merging nothing proves that the parent exists and changes its ETag, which a cascade notices.
    const { name, table } = this.#parent;
    const message = `There is no ${name} ${printKey(place)} for the child.`;
    const explain = async () => tableError("not-found", message, { table, key: rowKey });
    const [etag = ""] = await commitSteps([
      withContribution(step, { mutations: [mergeNothing(place)], explain }),
    ]);
    return { ...child, etag };
  }

  deleteCascade(key: KeyValues): Promise<boolean> {
    const { partitionKey, start } = this.#place(key);
    const open = openEntity(this.#session, this.#parent);
    return retryWhileStale(this.#session, {}, async () => {
      const before = await readEntity(open, key);
      const rows = { from: start, to: endOf(start) };
      const deleted = await bulkDelete(this.#session, this.#child.table, { partitionKey, rows });
      if (before) await commitSteps([deleteStep(open, before)]);
      // A parent that was inserted meanwhile may have lost children to this call, so it is deleted as well.
      else if (deleted > 0 && (await readEntity(open, key))) throw new Stale(start);
      return before !== undefined || deleted > 0;
    });
  }

  #place(key: KeyValues) {
    const { partitionKey, rowKey } = this.#parent.rows.key(key, this.#session.profile);
    const start = rowKey + this.#parent.rows.row.separator;
    return { partitionKey, rowKey, start, end: endOf(start) };
  }
}
