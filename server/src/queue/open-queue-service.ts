import type { BackgroundWork } from "../catalog/background-loop.ts";
import { KEY_SPACES } from "../catalog/key-spaces.ts";
import { type Foundation, openCatalog } from "../catalog/open-catalog.ts";
import { partitionRange } from "../engine/key-codec.ts";
import type { Service } from "../http/service.ts";
import { QUEUE_DOCUMENTS } from "../xml/document-rules.ts";
import { queuePartition } from "./message-keys.ts";
import { MessageStore, type QueueValue } from "./message-store.ts";
import { pooledRandomBytes } from "./pooled-random-bytes.ts";
import type { QueueContext } from "./queue-operation.ts";
import { queueService } from "./queue-service.ts";
import { Sweeper } from "./sweeper.ts";

export interface QueueServiceOptions extends Foundation {
  /** Default: from the operating system. */
  readonly randomBytes?: ((count: number) => Buffer) | undefined;
}

export interface OpenQueueService {
  readonly service: Service<QueueContext>;
  /** Not started yet. */
  readonly background: readonly BackgroundWork[];
  /** For tests, which do not wait for background work. */
  readonly sweeper: Sweeper;
}

/** An age clock that follows a jump is behind by much more. */
const AGE_BEHIND_MS_MAX = 1000;

/** Assembles the Queue service on an engine. */
export function openQueueService(options: QueueServiceOptions): OpenQueueService {
  const { engine, clock, ageClock, onError } = options;
  const { catalog, reaper, properties } = openCatalog<QueueValue>(options, {
    space: KEY_SPACES.queueCatalog,
    rules: QUEUE_DOCUMENTS,
    contentsOf: (accountId, queueId) => partitionRange(queuePartition(accountId, queueId)),
  });
  const sweeper = new Sweeper({ engine, clock: ageClock, catalog, onError });
  const messages = new MessageStore({
    engine,
    clock,
    catalog,
    randomBytes: options.randomBytes ?? pooledRandomBytes(),
    // While the age clock lags behind a jump, those messages must not be freed yet: sweeping every queue
    // would free nothing.
    onManyExpired: () => {
      if (clock.now() - ageClock.now() < AGE_BEHIND_MS_MAX) sweeper.wake();
    },
  });
  const service = queueService({ catalog, messages, properties, reaper });
  return { service, background: [reaper, sweeper], sweeper };
}
