import { retryWhileStale, Stale } from "../entities/write.ts";
import { validationFailed } from "../errors.ts";
import { type EntityRows, type Row, TYPE_PROPERTY } from "../model/entity-rows.ts";
import type { AnyEntity } from "../model/follower.ts";
import { type Properties, text } from "../ports/edm.ts";
import { printKey, writeOver } from "../ports/mutation.ts";
import { isRefusal } from "../ports/port-error.ts";
import type { EntityKey, StoredEntity } from "../ports/tables.ts";
import type { Session } from "../store/session.ts";
import { lastToken, tokensAfter, tokensOf, WRITE_TOKENS } from "../store/write-token.ts";

/** A view without its types. */
export interface AnyView {
  readonly name: string;
  readonly rows: EntityRows;
  project(source: Row): readonly Row[];
}

/** A projected row and its key. */
interface ViewRow {
  readonly key: EntityKey;
  readonly row: Row;
}

/** The write token of the source from which a row of the view was made. */
const SOURCE_TOKEN = "rh_x";

/**
 * Brings the rows of a view in line with their source. It reads the row first and the source second: the row's
 * ETag then guarantees that the source is no older than the one other workers used, in whatever order and
 * however often changes are reported. An unwanted row becomes a tombstone instead of being deleted, because a
 * missing row has no ETag to guarantee that.
 */
export class ViewProjector {
  readonly #session: Session;
  readonly #view: AnyView;
  readonly #source: AnyEntity;

  constructor(session: Session, view: AnyView, source: AnyEntity) {
    this.#session = session;
    this.#view = view;
    this.#source = source;
  }

  /** The rows that a source has in the view, with their keys. @throws validation-failed for a bad projection. */
  rowsOf(source: Row | undefined): ViewRow[] {
    const { name, rows } = this.#view;
    const { profile } = this.#session;
    if (!source) return [];
    const own = this.#source.rows.key(source, profile);
    return this.#view.project(source).map((row) => {
      const key = this.#source.rows.key(row, profile);
      if (printKey(key) !== printKey(own)) {
        const message = `a row made from ${own.rowKey} has the key fields of ${key.rowKey}`;
        throw validationFailed(name, "project", message);
      }
      return { key: rows.key(row, profile), row };
    });
  }

  async reconcile(table: string, base: EntityKey, key: EntityKey): Promise<void> {
    const { tables } = this.#session;
    await retryWhileStale(this.#session, {}, async () => {
      const before = await tables.get(table, key);
      const source = await tables.get(this.#source.table, base);
      const properties = await this.contentOf(key, source, before);
      await tables.commit(table, [writeOver(before, key, properties)]).catch((error) => {
        throw isRefusal(error, 409, 412) ? new Stale(key.rowKey, error) : error;
      });
    });
  }

  /** The content of the row at `key` for this source, to replace `before`. */
  async contentOf(
    key: EntityKey,
    source: StoredEntity | undefined,
    before?: StoredEntity,
  ): Promise<Properties> {
    const { name, rows } = this.#view;
    const all = this.rowsOf(source && this.#source.rows.decode(source));
    const row = all.find((one) => printKey(one.key) === printKey(key))?.row;
    if (row) await rows.validate(row);
    const token = this.#session.writeToken();
    const earlier = tokensOf(before?.properties);
    const properties = row
      ? rows.encode(row, token, earlier)
      : {
          [TYPE_PROPERTY]: text(`${name}.gone:1`),
          [WRITE_TOKENS]: text(tokensAfter(token, earlier)),
        };
    return { ...properties, [SOURCE_TOKEN]: text(lastToken(source?.properties) ?? "") };
  }
}
