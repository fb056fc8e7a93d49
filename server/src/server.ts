import type { Accounts } from "./auth/accounts.ts";
import type { BearerVerifier } from "./auth/bearer.ts";
import type { Awaitable } from "./awaitable.ts";
import { LogBlobs } from "./blob/log-blobs.ts";
import { openBlobService } from "./blob/open-blob-service.ts";
import { openAccountIds } from "./catalog/account-ids.ts";
import type { BackgroundWork } from "./catalog/background-loop.ts";
import { Catalog } from "./catalog/catalog.ts";
import { KEY_SPACES } from "./catalog/key-spaces.ts";
import type { ServicePropertiesStore } from "./catalog/service-properties-store.ts";
import { type Clock, systemClock } from "./clock.ts";
import type { ContentStore } from "./content/content-store.ts";
import type { Engine } from "./engine/engine.ts";
import type { Handle } from "./http/both-lanes.ts";
import { Front } from "./http/front.ts";
import type { Gate } from "./http/gate.ts";
import { type Health, healthPages } from "./http/health.ts";
import { HttpServer, type TlsMaterial } from "./http/http-server.ts";
import type { ExchangeObserver, Observer } from "./http/observer.ts";
import { joinPages, type Pages, withPages } from "./http/pages.ts";
import { SERVICE_NAMES, type Service, type ServiceName } from "./http/service.ts";
import { Analytics } from "./insight/analytics.ts";
import { AnalyticsLog } from "./insight/analytics-log.ts";
import type { Insight } from "./insight/insight.ts";
import { PatientClock } from "./patient-clock.ts";
import { openQueueService } from "./queue/open-queue-service.ts";
import { EntityStore, type TableValue } from "./table/entity-store.ts";
import { MetricsTables } from "./table/metrics-tables.ts";
import { openTableService } from "./table/open-table-service.ts";

export interface ServicesOptions {
  readonly accounts: Accounts;
  /** Opened by the caller, closed with the services. */
  readonly engine: Engine;
  /**
   * Where contents of blobs live that are too large for the engine's values; opened by the caller,
   * closed with the services. Default: in many rows of the engine.
   */
  readonly contents?: ContentStore | undefined;
  readonly services: readonly ServiceName[];
  readonly bearer?: BearerVerifier | undefined;
  /** Whether signed dates must be near the clock. Default true. */
  readonly checkDate?: boolean;
  /** Whether `ACCOUNT.table.HOST` names an account. Default true. */
  readonly hostStyle?: boolean;
  /** Whether containers of blobs may be opened to callers without credentials. Default true. */
  readonly allowsPublicAccess?: boolean;
  readonly clock?: Clock;
  readonly observer?: Observer;
  /** What `/readyz` says. Default: ready, and the engine's name. */
  readonly health?: () => Awaitable<Health>;
  /** Watches tables being used. Default nobody. */
  readonly insight?: Insight | undefined;
  /** What every request passes before anything is done. Default nothing. */
  readonly gate?: Gate | undefined;
  /** Times requests more finely than the clock does; see `FrontOptions`. */
  readonly stopwatch?: (() => number) | undefined;
  /** Answered on the port of the Table service, in front of it. */
  readonly pages?: Pages | undefined;
  /** Where unguessable ids come from. Default: the operating system. */
  readonly randomBytes?: (count: number) => Buffer;
  /**
   * Told of errors that no answer tells of: in background work, which is tried again, and with
   * connections, which are then cut.
   */
  readonly onError?: (error: unknown) => void;
}

/** The services, ready to answer requests however these come. */
export interface OpenServices {
  readonly handles: ReadonlyMap<ServiceName, Handle>;
  /** Ends background work, then closes the contents and the engine. */
  close(): Promise<void>;
}

export async function openServices(options: ServicesOptions): Promise<OpenServices> {
  const { engine, accounts, observer } = options;
  const foundation = {
    engine,
    clock: options.clock ?? systemClock,
    ageClock: options.clock ?? new PatientClock(systemClock),
    accountIds: await openAccountIds(engine, accounts.names),
    onError: options.onError ?? (() => {}),
  };
  const settings = new Map<ServiceName, ServicePropertiesStore>();
  const analytics = openAnalytics(foundation, settings);
  const exchangeObserver: ExchangeObserver = {
    finished(record, request, response) {
      analytics.finished(record, request, response);
      observer?.finished(record, request);
    },
  };
  const auth = { checkDate: options.checkDate ?? true, bearer: options.bearer };
  const frontOptions = {
    accounts,
    clock: foundation.clock,
    observer: exchangeObserver,
    hostStyle: options.hostStyle ?? true,
    gate: options.gate,
    stopwatch: options.stopwatch,
    auth,
  };
  const ready = () => ({ ready: true, detail: { engine: engine.name } });
  const health = healthPages(options.health ?? ready);
  const handles = new Map<ServiceName, Handle>();
  const background: BackgroundWork[] = [];
  const open = <Context extends WithProperties>(opened: OpenService<Context>) => {
    settings.set(opened.service.name, opened.service.context.properties);
    const front = new Front(opened.service, frontOptions);
    const { name } = opened.service;
    const pages = options.pages && name === "table" ? joinPages([health, options.pages]) : health;
    handles.set(name, withPages(front, pages));
    background.push(...opened.background);
  };

  if (options.services.includes("blob")) {
    const { contents, allowsPublicAccess } = options;
    open(openBlobService({ ...foundation, auth, contents, allowsPublicAccess }));
  }
  if (options.services.includes("queue")) {
    open(openQueueService({ ...foundation, randomBytes: options.randomBytes }));
  }
  if (options.services.includes("table")) {
    const { gate, insight } = options;
    open(openTableService({ ...foundation, gate, insight }));
  }

  // Whether an account's first request is to be logged and counted must be known when it comes.
  await Promise.all([...settings.values()].map((each) => each.remember(accounts.names)));
  background.push(...analytics.background);
  for (const work of background) work.start();
  return {
    handles,
    async close() {
      await Promise.all(background.map((work) => work.close()));
      await options.contents?.close();
      await engine.close();
    },
  };
}

/** What every service stands on. */
interface Foundation {
  readonly engine: Engine;
  readonly clock: Clock;
  /** By which things are old enough to be freed. */
  readonly ageClock: Clock;
  readonly accountIds: ReadonlyMap<string, number>;
  readonly onError: (error: unknown) => void;
}

interface OpenService<Context> {
  readonly service: Service<Context>;
  /** Not begun yet. */
  readonly background: readonly BackgroundWork[];
}

interface WithProperties {
  readonly properties: ServicePropertiesStore;
}

/** What somebody set of each service, as far as it is open. */
type Settings = ReadonlyMap<ServiceName, ServicePropertiesStore>;

interface OpenAnalytics extends ExchangeObserver {
  /** Not begun yet. */
  readonly background: readonly BackgroundWork[];
}

/** The metrics tables and the analytics log, for accounts whose service properties ask for them. */
function openAnalytics(foundation: Foundation, settings: Settings): OpenAnalytics {
  const counts = new Analytics(foundation.clock);
  const log = new AnalyticsLog(() => logBlobs.wake());
  const logBlobs = new LogBlobs({
    ...foundation,
    clock: foundation.ageClock,
    log,
    retentionDays: (account, service) =>
      settings.get(service)?.chosen(account)?.logging.retentionDays ?? undefined,
  });
  return {
    finished(record, request, response) {
      const chosen = settings.get(record.service)?.chosen(record.account);
      if (chosen === undefined) return;
      counts.finished(record, chosen);
      log.finished(record, chosen, request, response);
    },
    background: [openMetricsTables(foundation, counts, settings), logBlobs],
  };
}

/** On stores of its own: other services are counted where no tables are served. */
function openMetricsTables(
  { engine, clock, ageClock, accountIds, onError }: Foundation,
  analytics: Analytics,
  settings: Settings,
): MetricsTables {
  const catalog = new Catalog<TableValue>(engine, KEY_SPACES.tableCatalog, accountIds, clock);
  const entities = new EntityStore(engine, catalog, clock);
  return new MetricsTables({
    engine,
    clock: ageClock,
    catalog,
    entities,
    analytics,
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

export interface ServerOptions extends Omit<ServicesOptions, "services"> {
  /** The services to start, and where each listens. */
  readonly listen: Readonly<Partial<Record<ServiceName, ListenAddress>>>;
  readonly tls?: TlsMaterial | undefined;
  /** Who reads requests; see `HttpServerOptions.lane`. Default "fast". */
  readonly lane?: "node" | "fast";
}

export interface ListenAddress {
  readonly host: string;
  readonly port: number;
}

export interface RunningServer {
  /** `http://127.0.0.1:10002`, where each service that was asked for listens. */
  readonly urls: Readonly<Partial<Record<ServiceName, string>>>;
  /** Ends what is under way, refuses what is new, closes the engine. */
  close(): Promise<void>;
}

/** The composition root: configuration in, running server out. */
export async function startServer(options: ServerOptions): Promise<RunningServer> {
  const { listen, tls, lane = "fast" } = options;
  const names = SERVICE_NAMES.filter((name) => listen[name]);
  const services = await openServices({ ...options, services: names });
  const urls: Partial<Record<ServiceName, string>> = {};
  const servers: HttpServer[] = [];
  try {
    for (const name of names) {
      const server = await HttpServer.listen(
        {
          ...listen[name]!,
          tls,
          lane,
          carriesStreams: name === "blob",
          onError: options.onError ?? (() => {}),
        },
        services.handles.get(name)!,
      );
      servers.push(server);
      urls[name] = server.url;
    }
  } catch (error) {
    await Promise.all(servers.map((server) => server.close()));
    await services.close();
    throw error;
  }
  return {
    urls,
    async close() {
      await Promise.all(servers.map((server) => server.close()));
      await services.close();
    },
  };
}
