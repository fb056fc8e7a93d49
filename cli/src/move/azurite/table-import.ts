import { whenReady } from "@rowhouse/server/awaitable";
import type { Foundation } from "@rowhouse/server/catalog/open-catalog";
import type { Key } from "@rowhouse/server/engine/engine";
import { encodeRecord, recordOf, recordTimestamp } from "@rowhouse/server/table/entity-record";
import { openTableService } from "@rowhouse/server/table/open-table-service";
import { entityKey } from "@rowhouse/server/table/table-keys";
import { checkTableName } from "@rowhouse/server/table/table-name";
import { type AzuriteEntity, azuriteEntity } from "./azurite-entity.ts";
import type { ImportCounts, RowImport } from "./row-import.ts";
import { parseRow, type Row, textOf } from "./row-members.ts";

export interface TableImportOptions {
  readonly foundation: Foundation;
  readonly counts: ImportCounts;
}

interface Waiting extends AzuriteEntity {
  readonly key: Key;
}

/** Entities in one commit. */
const GROUP_ENTITIES = 64;
/** Commits under way: they share their flushes. */
const GROUPS_AT_ONCE = 16;

/** Entities, written under their own Timestamps. */
export class TableImport implements RowImport {
  readonly #options: TableImportOptions;
  readonly #context;
  #group: Waiting[] = [];
  readonly #underWay = new Set<Promise<void>>();

  constructor(options: TableImportOptions) {
    this.#options = options;
    this.#context = openTableService(options.foundation).service.context;
  }

  take(collection: string, bytes: Buffer): void | Promise<void> {
    if (collection === "$TABLES_COLLECTION$") return this.#create(parseRow(bytes));
    if (collection.startsWith("$")) return undefined;
    const at = collection.indexOf("$");
    const [account, table] = [collection.slice(0, at), collection.slice(at + 1)];
    const read = azuriteEntity(bytes);
    const { entities } = this.#context;
    const taken = whenReady(entities.openTable(account, table), ({ prefix }) => {
      const { partitionKey, rowKey } = read.entity;
      this.#group.push({ ...read, key: entityKey(prefix, partitionKey, rowKey) });
      return this.#group.length < GROUP_ENTITIES ? undefined : this.#commitSoon();
    });
    return taken;
  }

  async finish(): Promise<void> {
    await this.#commitSoon();
    while (this.#underWay.size > 0) await Promise.race(this.#underWay);
  }

  async #create(row: Row): Promise<void> {
    const name = textOf(row, "table");
    checkTableName(name);
    await this.#context.catalog.create(textOf(row, "account"), name, { policies: [] });
    this.#options.counts.tables++;
  }

  async #commitSoon(): Promise<void> {
    const group = this.#group;
    if (group.length === 0) return;
    this.#group = [];
    const running = this.#commit(group).finally(() => this.#underWay.delete(running));
    this.#underWay.add(running);
    if (this.#underWay.size === GROUPS_AT_ONCE) await Promise.race(this.#underWay);
  }

  async #commit(group: readonly Waiting[]): Promise<void> {
    const { engine } = this.#options.foundation;
    for (;;) {
      const found = await engine.get(group.map(({ key }) => key));
      const wanted = group.filter(({ timestampMicros }, i) => {
        const entry = found[i];
        return !entry || recordTimestamp(recordOf(entry)) < timestampMicros;
      });
      const isWanted = new Set(wanted);
      // Versions must not exceed the Timestamps, which they would replace. What is stored already is older.
      const version = wanted.reduce((least, each) => Math.min(least, each.timestampMicros), NEVER);
      const { committed } = await engine.commit({
        version,
        checks: group.map(({ key }, i) => ({ key, expected: found[i]?.version ?? "absent" })),
        puts: wanted.map(({ key, entity, timestampMicros }) => ({
          key,
          value: encodeRecord(entity, timestampMicros),
        })),
        deletes: [],
      });
      if (!committed) continue;
      this.#options.counts.entities += wanted.length;
      this.#options.counts.newerHere += group.filter((each, i) => {
        const entry = found[i];
        if (isWanted.has(each) || entry === undefined) return false;
        return recordTimestamp(recordOf(entry)) > each.timestampMicros;
      }).length;
      return;
    }
  }
}

const NEVER = Number.MAX_SAFE_INTEGER;
