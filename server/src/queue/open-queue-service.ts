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
  /** Default: of the operating system. */
  readonly randomBytes?: ((count: number) => Buffer) | undefined;
}

export interface OpenQueueService {
  readonly service: Service<QueueContext>;
  /** Not begun yet. */
  readonly background: readonly BackgroundWork[];
  /** For tests, which do not wait for the background. */
  readonly sweeper: Sweeper;
}

/** One that is behind is so by a jump: much more. */
const AGE_BEHIND_MS_MAX = 1000;

/** Puts the Queue service together on an engine. */
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
    // Behind a clock that jumped they are not to be freed yet: a look at every queue would find nothing.
    onManyExpired: () => {
      if (clock.now() - ageClock.now() < AGE_BEHIND_MS_MAX) sweeper.wake();
    },
  });
  const service = queueService({ catalog, messages, properties, reaper });
  return { service, background: [reaper, sweeper], sweeper };
}
