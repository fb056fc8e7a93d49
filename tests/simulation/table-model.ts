import type { Keys, Write } from "./table-client.ts";

export interface ModelEntity extends Keys {
  readonly etag: string;
  readonly properties: Readonly<Record<string, number | string>>;
}

/** The expected result of a write: done, or an error code. */
export type Verdict =
  | "done"
  | "EntityAlreadyExists"
  | "ResourceNotFound"
  | "UpdateConditionNotSatisfied";

/** A table as the documentation describes it, in a plain Map: obviously right, and slow. */
export class TableModel {
  #entities = new Map<string, ModelEntity>();

  get(keys: Keys): ModelEntity | undefined {
    return this.#entities.get(nameOf(keys));
  }

  /** All entities, by UTF-16 code units of their keys. */
  list(): ModelEntity[] {
    return [...this.#entities.values()].sort(
      (a, b) => compare(a.partitionKey, b.partitionKey) || compare(a.rowKey, b.rowKey),
    );
  }

  judge({ kind, ifMatch, ...keys }: Write): Verdict {
    const found = this.get(keys);
    if (kind === "insert") return found ? "EntityAlreadyExists" : "done";
    if (ifMatch === undefined) return "done";
    if (!found) return "ResourceNotFound";
    return ifMatch === "*" || ifMatch === found.etag ? "done" : "UpdateConditionNotSatisfied";
  }

  /** Applies a write that was judged possible. `etag` is the one that the service returned. */
  apply({ kind, properties, partitionKey, rowKey }: Write, etag: string): void {
    const keys = { partitionKey, rowKey };
    if (kind === "delete") this.#entities.delete(nameOf(keys));
    else {
      const kept = kind === "merge" ? this.get(keys)?.properties : {};
      this.#entities.set(nameOf(keys), { ...keys, etag, properties: { ...kept, ...properties } });
    }
  }

  clear(): void {
    this.#entities = new Map();
  }
}

function nameOf({ partitionKey, rowKey }: Keys): string {
  return JSON.stringify([partitionKey, rowKey]);
}

/** By UTF-16 code units, which is how JavaScript compares. */
export function compare(a: string, b: string): number {
  return a < b ? -1 : a > b ? 1 : 0;
}
