import { LogBlobs } from "./blob/log-blobs.ts";
import type { BackgroundWork } from "./catalog/background-loop.ts";
import { Catalog } from "./catalog/catalog.ts";
import { KEY_SPACES } from "./catalog/key-spaces.ts";
import type { Foundation } from "./catalog/open-catalog.ts";
import type { ServicePropertiesStore } from "./catalog/service-properties-store.ts";
import { AnalyticsLog } from "./insight/analytics-log.ts";
import { AnalyticsMetrics } from "./insight/analytics-metrics.ts";
import { EntityStore, type TableValue } from "./table/entity-store.ts";
import { MetricsTables } from "./table/metrics-tables.ts";
import { type ExchangeObserver, joinObservers, type Observer } from "./wire/observer.ts";
import { SERVICE_NAMES, type ServiceName } from "./wire/service-name.ts";

/** The service properties that users have set, for each open service. */
type Settings = ReadonlyMap<ServiceName, ServicePropertiesStore>;

export interface OpenAnalytics extends ExchangeObserver {
  /** Not started yet. */
  readonly background: readonly BackgroundWork[];
}

/** The metrics tables and the analytics log, for accounts whose service properties enable them. */
export function openAnalytics(foundation: Foundation, settings: Settings): OpenAnalytics {
  const metrics = new AnalyticsMetrics(foundation.clock);
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
      metrics.finished(record, chosen);
      log.finished(record, chosen, request, response);
    },
    background: [openMetricsTables(foundation, metrics, settings), logBlobs],
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

/**
 * Opens its own catalog and entity store, so that other services are counted even where tables are not
 * served.
 */
function openMetricsTables(
  { engine, clock, ageClock, accountIds, onError }: Foundation,
  metrics: AnalyticsMetrics,
  settings: Settings,
): MetricsTables {
  const catalog = new Catalog<TableValue>(engine, KEY_SPACES.tableCatalog, accountIds, clock);
  const entities = new EntityStore(engine, catalog, clock);
  return new MetricsTables({
    engine,
    clock: ageClock,
    catalog,
    entities,
    metrics,
    onError,
    retentionDays(account, table) {
      const service = SERVICE_NAMES.find((name) => table.toLowerCase().endsWith(name));
      const properties = service && settings.get(service)?.chosen(account);
      const { retentionDays } =
        (table.includes("Hour") ? properties?.hourMetrics : properties?.minuteMetrics) ?? {};
      return retentionDays ?? undefined;
    },
  });
}
