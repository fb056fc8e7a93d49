import { assertBetween } from "../errors.ts";
import { assertLength } from "../model/entity-rows.ts";
import type { BlobsPort } from "../ports/blobs.ts";
import { isRefusal } from "../ports/port-error.ts";
import type { EntityKey } from "../ports/tables.ts";
import { type From, pages } from "../query/pages.ts";
import { DAY_MS, HOUR_MS } from "../store/clock.ts";
import { blobsOf } from "../store/connected-ports.ts";
import type { Session } from "../store/session.ts";
import { IS_TOKEN } from "../store/write-token.ts";

export interface PointedBlobsOptions {
  readonly container: string;
  /** The table whose rows point to the blobs, and the property that does. */
  readonly table: string;
  readonly property: string;
  /** What blob names begin with, and what follows the keys in them. */
  readonly owner: string;
  readonly name: string;
}

const NAME_LENGTH_MAX = 1024;
/** A row names a blob within this time or never, so an older blob that no row names is garbage. */
const COMMIT_MS = HOUR_MS;

/**
 * Immutable blobs, each named by one property of one row: a new value is a new blob. A blob is written before
 * the row names it and deleted after the row stops doing so; a crash leaves at most a blob that no row names.
 */
export class PointedBlobs {
  readonly container: string;
  readonly #session: Session;
  readonly #options: PointedBlobsOptions;

  constructor(session: Session, options: PointedBlobsOptions) {
    this.container = options.container;
    this.#session = session;
    this.#options = options;
  }

  get port(): BlobsPort {
    return blobsOf(this.#session);
  }

  /** A name that was never used. @throws key-too-long when the two keys, escaped, do not fit in a blob's name. */
  newName(key: EntityKey): string {
    const blob = this.#pathOf(key) + this.#session.writeToken();
    assertLength(blob, NAME_LENGTH_MAX);
    return blob;
  }

  /** The latest time at which a row may begin to name a blob that is written now. */
  get commitByMs(): number {
    return this.#session.clock.now() + COMMIT_MS;
  }

  #pathOf({ partitionKey, rowKey }: EntityKey): string {
    const { owner, name } = this.#options;
    return [owner, partitionKey, rowKey, name, ""].map(encodeURIComponent).join("/");
  }

  async delete(blob: string | undefined): Promise<boolean> {
    return blob !== undefined && this.port.delete(this.container, blob);
  }

  /** Deletes the blobs older than `olderThanMs` that no row names. One read for each. @returns how many. */
  async collect(olderThanMs = DAY_MS): Promise<number> {
    // With NaN no blob would count as young, and all would be deleted.
    assertBetween("The work", { olderThanMs }, 0);
    const { container, port } = this;
    const prefix = `${encodeURIComponent(this.#options.owner)}/`;
    const before = this.#session.clock.now() - olderThanMs;
    let collected = 0;
    const listed = pages((from: From<string>) => port.list(container, { prefix, ...from }));
    for await (const page of listed) {
      for (const { name, lastModified } of page.blobs) {
        if (lastModified.getTime() > before || (await this.#isInUse(name))) continue;
        const deleted = port.delete(container, name, { ifUnmodifiedSince: lastModified });
        if (await deleted.catch(falseIfChanged)) collected++;
      }
    }
    return collected;
  }

  async #isInUse(blob: string): Promise<boolean> {
    const [, partitionKey = "", rowKey = ""] = decoded(blob);
    const { table, property } = this.#options;
    const path = this.#pathOf({ partitionKey, rowKey });
    // Not one of our names, so not ours to delete.
    if (!partitionKey || !rowKey || !blob.startsWith(path)) return true;
    if (!IS_TOKEN.test(blob.slice(path.length))) return true;
    const stored = await this.#session.tables.get(table, { partitionKey, rowKey });
    return stored?.properties[property]?.value === blob;
  }
}

function decoded(blob: string): string[] {
  try {
    return blob.split("/").map(decodeURIComponent);
  } catch {
    // A "%" that begins no escape.
    return [];
  }
}

function falseIfChanged(error: unknown): false {
  if (isRefusal(error, 412)) return false;
  throw error;
}
