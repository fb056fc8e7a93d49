import { LogBlobs } from "./blob/log-blobs.ts";
import type { BackgroundWork } from "./catalog/background-loop.ts";
import type { Foundation } from "./catalog/open-catalog.ts";
import type { ServicePropertiesStore } from "./catalog/service-properties-store.ts";
import { AnalyticsLog } from "./insight/analytics-log.ts";
import { type ExchangeObserver, joinObservers, type Observer } from "./wire/observer.ts";
import type { ServiceName } from "./wire/service-name.ts";

/** The service properties that users have set, for each open service. */
type Settings = ReadonlyMap<ServiceName, ServicePropertiesStore>;

export interface OpenAnalytics extends ExchangeObserver {
  /** Not started yet. */
  readonly background: readonly BackgroundWork[];
}

/** The analytics log, for accounts whose service properties enable it. */
export function openAnalytics(foundation: Foundation, settings: Settings): OpenAnalytics {
  const log = new AnalyticsLog(() => logBlobs.wake());
  const logBlobs = new LogBlobs({
    ...foundation,
    clock: foundation.ageClock,
    log,
    retentionDays: (account, service) =>
      settings.get(service)?.chosen(account)?.logging.retentionDays ?? undefined,
  });
  return {
    listens: (service, account) => settings.get(service)?.chosen(account) !== undefined,
    finished(record, request, response) {
      const chosen = settings.get(record.service)?.chosen(record.account);
      if (chosen === undefined) return;
      log.finished(record, chosen, request, response);
    },
    background: [logBlobs],
  };
}

/** Joins the analytics and an optional further observer into one. */
export function withAnalytics(
  analytics: OpenAnalytics,
  observer: Observer | undefined,
): ExchangeObserver {
  const observers = joinObservers(observer ? [observer] : []);
  return {
    listens: (service, account, isRefused) =>
      isRefused || !observers.refusalsOnly || analytics.listens(service, account, isRefused),
    finished(record, request, response) {
      analytics.finished(record, request, response);
      observers.finished(record, request);
    },
  };
}
