import type { EdmType } from "@rowhouse/protocol/edm";
import { ServiceError } from "@rowhouse/protocol/errors";
import { encodeName } from "@rowhouse/protocol/property-name";
import type { Catalog, Named } from "../../catalog/catalog.ts";
import type { Reaper } from "../../catalog/reaper.ts";
import type { Engine } from "../../engine/engine.ts";
import { keyBytes, partitionPrefixRange } from "../../engine/key-codec.ts";
import { scanToEnd } from "../../engine/scan-to-end.ts";
import {
  assertCanDescend,
  INDEXES_PER_TABLE_MAX,
  type IndexDefinition,
  type IndexPart,
  IndexProblem,
  parseIndexKey,
  printIndexKey,
} from "../../query/indexes/index-definition.ts";
import { recordOf } from "../entity-record.ts";
import { RecordView } from "../record-view.ts";
import { tablePrefix } from "../table-keys.ts";
import { checkTableName } from "../table-name.ts";
import type { IndexState, TableIndex, TableValue } from "../table-value.ts";
import { forgetBuild } from "./index-build.ts";
import { type DryRun, DryRunCounts } from "./index-dry-run.ts";
import { entryOf, openIndex, valuesOf } from "./open-index.ts";

export interface IndexCatalogOptions {
  readonly engine: Engine;
  readonly catalog: Catalog<TableValue>;
  readonly reaper: Pick<Reaper<TableValue>, "wake">;
}

/** A declaration, as clients send it. */
export interface DeclaredIndex {
  readonly name: string;
  readonly table: string;
  /** As `parseIndexKey` reads it. */
  readonly key: string;
  /** See `TableIndex.rate`. */
  readonly rate?: number | undefined;
}

/** An index and the table it is kept over. */
export interface KeptIndex {
  readonly table: Named<TableValue>;
  readonly index: TableIndex;
}

/** Entities from which undeclared types are taken. */
const SAMPLE_ENTITIES = 1000;
/** Of a dry run. */
const DRY_RUN_ENTITIES = 100_000;
const DRY_RUN_MS = 4000;

/**
 * Declares, lists, moves and drops indexes. Each step is one commit that changes the entry of the table together with
 * that of the index table, so nothing half done remains, and no writer can commit on the old state.
 */
export class IndexCatalog {
  readonly #options: IndexCatalogOptions;

  constructor(options: IndexCatalogOptions) {
    this.#options = options;
  }

  /** @returns the index, and whether it is new. @throws ServiceError with what is wrong and what is allowed */
  async create(
    account: string,
    declared: DeclaredIndex,
  ): Promise<{ readonly created: boolean; readonly kept: KeptIndex }> {
    const { catalog, engine } = this.#options;
    const { name, table, rate } = declared;
    checkName(name);
    const { opened, definition } = await this.#define(account, declared);
    let existing: TableIndex | undefined;
    const revised = await catalog.revise(account, [table, name], ([base, taken], id) => {
      if (!base) throw noTable(table);
      assertIsNoIndex(base);
      const indexes = base.value.indexes ?? [];
      existing = indexes.find((index) => isNamed(index, name));
      if (existing && printIndexKey(existing) === printIndexKey(definition)) return undefined;
      if (taken) {
        const what = existing
          ? `is an index of ${base.name} with the key ${printIndexKey(existing)}; an index never changes, so declare another one beside it`
          : "is the name of a table; choose a free name";
        throw new ServiceError("TableAlreadyExists", { message: `${taken.name} ${what}.` });
      }
      if (indexes.length >= INDEXES_PER_TABLE_MAX) {
        throw refused(
          `${base.name} has ${indexes.length} indexes; at most ${INDEXES_PER_TABLE_MAX} are allowed.`,
        );
      }
      const index: TableIndex = {
        ...definition,
        id,
        state: "building",
        since: engine.nextVersion(),
        ...(engine.supports.freePremises ? {} : { awaitsWriters: true }),
        ...(rate !== undefined && { rate }),
      };
      return [
        { value: { ...base.value, indexes: [...indexes, index] } },
        { value: { policies: [], indexOf: base.name } },
      ];
    });
    const base = revised?.[0];
    if (!base) return { created: false, kept: { table: opened, index: existing! } };
    const index = base.value.indexes!.find((each) => isNamed(each, name))!;
    return { created: true, kept: { table: base, index } };
  }

  /** What an index would be. @throws ServiceError as `create` does */
  async dryRun(account: string, declared: DeclaredIndex): Promise<DryRun> {
    const { catalog, engine } = this.#options;
    const { opened, definition } = await this.#define(account, declared);
    const accountId = catalog.accountId(account);
    const index: TableIndex = { ...definition, id: 0, state: "building", since: 0 };
    const open = openIndex(accountId, index);
    const counts = new DryRunCounts(definition);
    const range = partitionPrefixRange(tablePrefix(accountId, opened.id));
    const began = performance.now();
    const end = await scanToEnd(engine, range, (entry) => {
      const record = recordOf(entry);
      const values = valuesOf(open, record);
      const own = values && entryOf(open, record, 0);
      counts.add(values, own ? keyBytes(own.key) + own.value.length : 0);
      return counts.entities < DRY_RUN_ENTITIES && performance.now() - began < DRY_RUN_MS;
    });
    return counts.result(end === "complete");
  }

  /** A declaration with its types, and the table it is for. */
  async #define(
    account: string,
    { name, table, key }: DeclaredIndex,
  ): Promise<{ readonly opened: Named<TableValue>; readonly definition: IndexDefinition }> {
    const { isLocal, parts } = declaredKey(key);
    const opened = await this.#options.catalog.find(account, table);
    if (!opened) throw noTable(table);
    assertIsNoIndex(opened);
    const types = parts.some(({ type }) => type === undefined)
      ? await this.#sampleTypes(account, opened.id, parts)
      : [];
    const definition: IndexDefinition = {
      name,
      isLocal,
      parts: parts.map(({ property, type, descending }, at): IndexPart => {
        const known = type ?? types[at] ?? "Edm.String";
        if (descending) problemsOf(() => assertCanDescend(property, known));
        return { property, type: known, descending };
      }),
    };
    return { opened, definition };
  }

  /** All indexes of an account, by their tables in the order of their names. */
  async list(account: string): Promise<readonly KeptIndex[]> {
    const { catalog } = this.#options;
    const all = await catalog.list(account, { prefix: "", from: "" }, ({ value }) =>
      value.indexes ? "take" : "pass",
    );
    return all.flatMap((table) => (table.value.indexes ?? []).map((index) => ({ table, index })));
  }

  async find(account: string, name: string): Promise<KeptIndex | undefined> {
    const { catalog } = this.#options;
    for (;;) {
      const named = await catalog.find(account, name);
      const indexOf = named?.value.indexOf;
      if (!named || indexOf === undefined) return undefined;
      const table = await catalog.find(account, indexOf);
      const index = table?.value.indexes?.find(({ id }) => id === named.id);
      if (table && index) return { table, index };
      // Dropped between the two reads, unless the first one was right after all.
      const again = await catalog.find(account, name);
      if (again?.version === named.version) return undefined;
    }
  }

  /** @throws ServiceError ResourceNotFound if there is no such index. */
  async findOrThrow(account: string, name: string): Promise<KeptIndex> {
    const kept = await this.find(account, name);
    if (!kept) throw notFound(name);
    return kept;
  }

  /** Moves an index to another state; returns false if it is gone, or in none of the states `from`. */
  async move(
    account: string,
    kept: KeptIndex,
    from: readonly IndexState[],
    to: IndexState,
  ): Promise<boolean> {
    const { catalog } = this.#options;
    const revised = await catalog.revise(account, [kept.table.name], ([base]) => {
      const index = base?.value.indexes?.find(({ id }) => id === kept.index.id);
      if (!base || !index || !from.includes(index.state)) return undefined;
      const { awaitsWriters: _, ...moved } = { ...index, state: to };
      return [{ value: withIndexes(base.value, replaced(base.value, moved)) }];
    });
    return revised !== undefined;
  }

  /** Removes an index. Its entries are freed in the background. @throws ServiceError ResourceNotFound */
  async drop(account: string, name: string): Promise<void> {
    await this.#release(account, name, () => "remove");
    this.#options.reaper.wake();
  }

  /**
   * Makes the index table an ordinary one, with the entries it has, and keeps it no longer.
   * @throws ServiceError ResourceNotFound; InvalidInput if it lacks entries
   */
  async detach(account: string, name: string): Promise<KeptIndex> {
    return this.#release(account, name, ({ index }, value) => {
      if (index.state !== "ready") {
        throw refused(
          `${index.name} is ${index.state}, so entries may be missing; ${index.state === "stale" ? "repair it" : "wait until it is ready"}, or drop it.`,
        );
      }
      const { indexOf: _, ...rest } = value;
      return { value: rest };
    });
  }

  /**
   * Removes a table with all of its indexes, in one commit.
   * @returns whether there was one. @throws ServiceError if the table is an index
   */
  async removeTable(account: string, name: string, refuse: () => Error): Promise<boolean> {
    const { catalog } = this.#options;
    for (;;) {
      const named = await catalog.find(account, name);
      if (!named) return false;
      if (named.value.indexOf !== undefined) throw refuse();
      const indexes = named.value.indexes ?? [];
      const names = [name, ...indexes.map((index) => index.name)];
      const revised = await catalog.revise(account, names, (found) =>
        found[0]?.version === named.version ? found.map(() => "remove") : undefined,
      );
      if (!revised) continue;
      for (const { id } of indexes) await this.#forgetBuild(account, id);
      return true;
    }
  }

  async #release(
    account: string,
    name: string,
    become: (kept: KeptIndex, value: TableValue) => "remove" | { readonly value: TableValue },
  ): Promise<KeptIndex> {
    const { catalog } = this.#options;
    for (;;) {
      const kept = await this.findOrThrow(account, name);
      const { table, index } = kept;
      const revised = await catalog.revise(account, [table.name, name], ([base, entry]) => {
        const current = base?.value.indexes?.find(({ id }) => id === index.id);
        if (!base || !entry || !current) return undefined;
        const rest = base.value.indexes!.filter(({ id }) => id !== index.id);
        const revision = become({ table: base, index: current }, entry.value);
        return [{ value: withIndexes(base.value, rest) }, revision];
      });
      if (!revised) continue;
      await this.#forgetBuild(account, index.id);
      return kept;
    }
  }

  #forgetBuild(account: string, id: number): Promise<void> {
    const { catalog, engine } = this.#options;
    return forgetBuild(engine, catalog.accountId(account), id);
  }

  /** The commonest type of each property in the first entities of a table; undefined where none has it. */
  async #sampleTypes(
    account: string,
    id: number,
    parts: readonly { readonly property: string }[],
  ): Promise<(EdmType | undefined)[]> {
    const { catalog, engine } = this.#options;
    const names = parts.map(({ property }) => encodeName(property));
    const counts = names.map(() => new Map<EdmType, number>());
    const view = new RecordView();
    let left = SAMPLE_ENTITIES;
    await scanToEnd(
      engine,
      partitionPrefixRange(tablePrefix(catalog.accountId(account), id)),
      (entry) => {
        view.reset(recordOf(entry));
        for (const [at, name] of names.entries()) {
          const place = view.find(name);
          if (place < 0) continue;
          const type = view.typeOf(place);
          counts[at]!.set(type, (counts[at]!.get(type) ?? 0) + 1);
        }
        return --left > 0;
      },
      { entriesExpected: SAMPLE_ENTITIES },
    );
    return counts.map((byType) => [...byType].sort((a, b) => b[1] - a[1])[0]?.[0]);
  }
}

function isNamed({ name }: IndexDefinition, other: string): boolean {
  return name.toLowerCase() === other.toLowerCase();
}

function withIndexes(value: TableValue, indexes: readonly TableIndex[]): TableValue {
  const { indexes: _, ...rest } = value;
  return indexes.length > 0 ? { ...rest, indexes } : rest;
}

function replaced({ indexes = [] }: TableValue, index: TableIndex): readonly TableIndex[] {
  return indexes.map((each) => (each.id === index.id ? index : each));
}

function checkName(name: string): void {
  try {
    checkTableName(name);
  } catch (cause) {
    if (!(cause instanceof ServiceError)) throw cause;
    throw new ServiceError(cause.code, {
      message: `"${name}" cannot be the name of an index: like a table's, it has 3 to 63 letters and digits, a letter first, and is not "tables".`,
      cause,
    });
  }
}

function declaredKey(text: string) {
  return problemsOf(() => parseIndexKey(text));
}

/** Answers a problem with a declaration as a bad request. */
function problemsOf<T>(read: () => T): T {
  try {
    return read();
  } catch (error) {
    if (error instanceof IndexProblem) throw refused(error.message, error);
    throw error;
  }
}

function refused(message: string, cause?: unknown): ServiceError {
  return new ServiceError("InvalidInput", { message, cause });
}

/** @throws ServiceError InvalidInput */
function assertIsNoIndex({ name, value: { indexOf } }: Named<TableValue>): void {
  if (indexOf === undefined) return;
  throw refused(`${name} is itself an index, of ${indexOf}; declare the index over that table.`);
}

function noTable(name: string): ServiceError {
  const message = `There is no table named ${name}; create it first.`;
  return new ServiceError("TableNotFound", { message });
}

function notFound(name: string): ServiceError {
  return new ServiceError("ResourceNotFound", { message: `There is no index named ${name}.` });
}
