import { randomBytes } from "node:crypto";
import { join } from "node:path";
import type { Foundation } from "@rowhouse/server/catalog/open-catalog";
import { parseMessageId } from "@rowhouse/server/queue/message-id";
import { queuePartition, recordKey } from "@rowhouse/server/queue/message-keys";
import { NONCE_BYTES } from "@rowhouse/server/queue/message-record";
import { writeOfNewMessage } from "@rowhouse/server/queue/messages-change";
import { openQueueService } from "@rowhouse/server/queue/open-queue-service";
import { checkResourceName } from "@rowhouse/server/wire/resource-name";
import { chunkOf, Extents } from "./extent-source.ts";
import type { ImportCounts, RowImport } from "./row-import.ts";
import { metadataOf, numberOf, parseRow, type Row, textOf, timeOf } from "./row-members.ts";

export interface QueueImportOptions {
  readonly foundation: Foundation;
  readonly counts: ImportCounts;
  readonly folder: string;
}

/** Messages with their ids, times and dequeue counts. Pop receipts end: a consumer receives the message again. */
export class QueueImport implements RowImport {
  readonly #options: QueueImportOptions;
  readonly #context;
  readonly #extents: Extents;

  constructor(options: QueueImportOptions) {
    this.#options = options;
    this.#context = openQueueService(options.foundation).service.context;
    this.#extents = new Extents(join(options.folder, "__queuestorage__"));
  }

  async take(collection: string, bytes: Buffer): Promise<void> {
    if (collection === "$QUEUES_COLLECTION$") return this.#create(parseRow(bytes));
    if (collection === "$MESSAGES_COLLECTION$") return this.#put(parseRow(bytes));
  }

  finish(): Promise<void> {
    return this.#extents.close();
  }

  async #create(row: Row): Promise<void> {
    const name = textOf(row, "name");
    checkResourceName(name);
    const value = { metadata: metadataOf(row), policies: [] };
    await this.#context.catalog.create(textOf(row, "accountName"), name, value);
    this.#options.counts.queues++;
  }

  async #put(row: Row): Promise<void> {
    const { counts, foundation } = this.#options;
    const { engine, clock } = foundation;
    const expiresAt = timeOf(row, "expirationTime");
    if (expiresAt <= clock.now()) return;
    const account = textOf(row, "accountName");
    const queue = textOf(row, "queueName");
    const named = await this.#context.catalog.find(account, queue);
    if (named === undefined) throw new Error(`there is no queue ${queue}`);
    const partition = queuePartition(this.#context.catalog.accountId(account), named.id);
    const id = parseMessageId(textOf(row, "messageId"));
    if (id === undefined) throw new Error("messageId is no GUID");
    const [present] = await engine.get([recordKey(partition, { expiresAt, id })]);
    if (present !== undefined) return;
    const version = engine.nextVersion();
    await engine.commit(
      writeOfNewMessage(partition, version, {
        id,
        expiresAt,
        insertedAt: timeOf(row, "insertionTime"),
        visibleAt: numberOf(row, "timeNextVisible"),
        sequence: version,
        dequeueCount: numberOf(row, "dequeueCount"),
        generation: 0,
        nonce: randomBytes(NONCE_BYTES).toString("latin1"),
        text: await this.#extents.read(chunkOf(row)),
      }),
    );
    counts.messages++;
  }
}
