import type { BackgroundWork } from "../catalog/background-loop.ts";
import { Catalog } from "../catalog/catalog.ts";
import { KEY_SPACES } from "../catalog/key-spaces.ts";
import { Reaper } from "../catalog/reaper.ts";
import { ServicePropertiesStore } from "../catalog/service-properties-store.ts";
import type { Clock } from "../clock.ts";
import type { Engine } from "../engine/engine.ts";
import { partitionRange } from "../engine/key-codec.ts";
import type { Service } from "../http/service.ts";
import { QUEUE_DOCUMENTS } from "../xml/document-rules.ts";
import { queuePartition } from "./message-keys.ts";
import { MessageStore, type QueueValue } from "./message-store.ts";
import { pooledRandomBytes } from "./pooled-random-bytes.ts";
import type { QueueContext } from "./queue-operation.ts";
import { queueService } from "./queue-service.ts";
import { Sweeper } from "./sweeper.ts";

export interface QueueServiceOptions {
  readonly engine: Engine;
  readonly clock: Clock;
  /** By which messages are old enough to be freed. */
  readonly ageClock: Clock;
  readonly accountIds: ReadonlyMap<string, number>;
  readonly onError: (error: unknown) => void;
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
  const { engine, clock, ageClock, accountIds, onError } = options;
  const space = KEY_SPACES.queueCatalog;
  const catalog = new Catalog<QueueValue>(engine, space, accountIds, clock);
  const reaper = new Reaper({
    engine,
    catalog,
    contentsOf: (accountId, queueId) => partitionRange(queuePartition(accountId, queueId)),
    onError,
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
  const properties = new ServicePropertiesStore({
    engine,
    clock,
    space,
    accountIds,
    rules: QUEUE_DOCUMENTS,
  });
  const service = queueService({ catalog, messages, properties, reaper });
  return { service, background: [reaper, sweeper], sweeper };
}
