import type { KeyDeclaration } from "./keys/key.ts";
import {
  type ListSlot,
  type ListStore,
  membersIn,
  QueuedList,
  type QueuedListApi,
  type QueuedListOptions,
  withMember,
} from "./lists/queued-list.ts";
import { REPAIR_QUEUE } from "./messages/repair-order.ts";
import { entryProblems } from "./model/entry.ts";
import type { Place } from "./model/entry-options.ts";
import type { AnyEntity, FollowerContext } from "./model/follower.ts";
import { Index, type IndexKind, type OpenIndex } from "./model/follower.ts";
import type { FieldNames, KeyEquality } from "./model/key-query.ts";
import { nameProblems } from "./model/storage-name.ts";
import type { BlobPage, BlobsPort } from "./ports/blobs.ts";
import { isRefusal, isRefusalInside } from "./ports/port-error.ts";
import type { Continuation, EntityKey } from "./ports/tables.ts";
import { type From, pages } from "./query/pages.ts";
import { blobsOf } from "./store/connected-ports.ts";

export interface BlobListOptions<N extends KeyDeclaration, E extends string = string>
  extends QueuedListOptions<E> {
  /** For lists only: every blob whose name begins with the literals of `name` is taken for one. */
  readonly container: string;
  /** The blob's name: the value its members share, with literals as in a row key. */
  readonly name: N;
}

interface BlobListKind<N extends KeyDeclaration, Names extends string> extends IndexKind {
  readonly fields: Names;
  readonly api: QueuedListApi<this["entity"], KeyEquality<N>>;
}

/**
 * One blob for each value, with the keys of the entities that have it: lists of any length, maintained by a
 * worker. For sets that are read whole and change rarely, since a change writes the whole list.
 */
export function blobList<const N extends KeyDeclaration, const E extends string = never>(
  options: BlobListOptions<N, E>,
): BlobList<N, FieldNames<N, E>> {
  return new BlobList(options);
}

export class BlobList<N extends KeyDeclaration, Names extends string = string> extends Index<
  BlobListKind<N, Names>
> {
  declare readonly options: BlobListOptions<N>;
  override readonly tables: readonly string[] = [];
  override readonly queues: readonly string[];
  override readonly containers: readonly string[];

  constructor(options: BlobListOptions<N>) {
    // Treats containers as partitions of a table, so that the rules for keys apply to names.
    super(options, {
      table: "blobs",
      partition: [{ literal: options.container }],
      row: options.name,
    });
    this.queues = [options.queue ?? REPAIR_QUEUE];
    this.containers = [options.container];
  }

  problems(entity: AnyEntity, name: string): string[] {
    const { queue, container } = this.options;
    return [...entryProblems(this, entity, name), ...nameProblems({ queue, container })];
  }

  follow(context: FollowerContext): OpenIndex {
    const blobs = blobsOf(context.session);
    const store = (place: Place) => new Blobs(blobs, place);
    return new QueuedList(context, this, store).follower();
  }
}

/** A list's keys are its container and its blob name. One member per line. */
class Blobs implements ListStore {
  readonly suffixLength = 0;
  readonly #blobs: BlobsPort;
  readonly #container: string;
  /** Other lists may share the container. */
  readonly #prefix: string;

  constructor(blobs: BlobsPort, { partition, row }: Place) {
    this.#blobs = blobs;
    this.#container = partition.prefix;
    this.#prefix = row.prefix;
  }

  async members({ partitionKey, rowKey }: EntityKey): Promise<string[]> {
    return linesOf(await this.#blobs.get(partitionKey, rowKey));
  }

  async open(
    { partitionKey: container, rowKey: name }: EntityKey,
    member: string,
  ): Promise<ListSlot> {
    const stored = await this.#blobs.get(container, name);
    const members = linesOf(stored);
    return {
      isMember: members.includes(member),
      set: async (isMember) => {
        const next = withMember(members, member, isMember);
        try {
          if (next.length > 0) {
            const body = new TextEncoder().encode(`${next.join("\n")}\n`);
            const condition = stored ? { ifMatch: stored.etag } : "absent";
            const options = { condition, contentType: "text/plain" } as const;
            await this.#blobs.put(container, name, body, options);
          } else if (stored) await this.#blobs.delete(container, name, { ifMatch: stored.etag });
          return true;
        } catch (error) {
          if (isRefusalInside(error, 404, 409, 412)) return false;
          throw error;
        }
      },
    };
  }

  async *all(from?: Continuation) {
    for await (const { blobs, continuation: marker } of this.#pages(from?.partitionKey)) {
      for (const [i, { name }] of blobs.entries()) {
        const list = { partitionKey: this.#container, rowKey: name };
        const isLast = i === blobs.length - 1;
        const next = isLast && marker !== undefined && { continuation: { partitionKey: marker } };
        yield { list, members: await this.members(list), ...next };
      }
    }
  }

  async drop(keep: () => Promise<void>): Promise<void> {
    for await (const { blobs } of this.#pages()) {
      for (const { name, etag } of blobs) {
        // In the version read before: after a pause in `keep`, another process may have rebuilt the list.
        for (let ifMatch: string | undefined = etag; ifMatch !== undefined; ) {
          await keep();
          const isDone = await this.#deleteIfCurrent(name, ifMatch);
          ifMatch = isDone ? undefined : (await this.#blobs.get(this.#container, name))?.etag;
        }
      }
    }
  }

  /** False when another client wrote it. */
  async #deleteIfCurrent(name: string, ifMatch: string): Promise<boolean> {
    try {
      await this.#blobs.delete(this.#container, name, { ifMatch });
      return true;
    } catch (error) {
      if (isRefusal(error, 412)) return false;
      throw error;
    }
  }

  #pages(start?: string): AsyncGenerator<BlobPage> {
    const prefix = this.#prefix;
    const ask = (from: From<string>) => this.#blobs.list(this.#container, { prefix, ...from });
    return pages(ask, start);
  }
}

function linesOf(stored: { readonly body: Uint8Array } | undefined): string[] {
  return stored ? membersIn(new TextDecoder().decode(stored.body)) : [];
}
