import { join } from "node:path";
import { createSecureContext } from "node:tls";
import type { Accounts } from "./auth/accounts.ts";
import type { AuthRules } from "./auth/auth-context.ts";
import type { BearerVerifier } from "./auth/bearer.ts";
import type { Awaitable } from "./awaitable.ts";
import { openBlobService } from "./blob/open-blob-service.ts";
import { openAccountIds } from "./catalog/account-ids.ts";
import type { BackgroundWork } from "./catalog/background-loop.ts";
import type { Catalog } from "./catalog/catalog.ts";
import type { Foundation } from "./catalog/open-catalog.ts";
import { drawSlot } from "./catalog/process-slot.ts";
import type { Reaper } from "./catalog/reaper.ts";
import type { ServicePropertiesStore } from "./catalog/service-properties-store.ts";
import { type Clock, type Stopwatch, systemClock } from "./clock.ts";
import type { ContentStore } from "./content/content-store.ts";
import { CONTENTS_FOLDER, FileContentStore } from "./content/file-content-store.ts";
import type { Engine } from "./engine/engine.ts";
import { type Health, healthPages } from "./http/health.ts";
import { HttpServer, type TlsMaterial } from "./http/http-server.ts";
import type { Handle } from "./http/lane-limits.ts";
import { OpenConnections } from "./http/open-connections.ts";
import { type Page, withPages } from "./http/pages.ts";
import { PeerMemory } from "./http/peer-memory.ts";
import { RequestPipeline, type RequestPipelineOptions } from "./http/request-pipeline.ts";
import type { Service } from "./http/service.ts";
import type { Insight } from "./insight/insight.ts";
import { openAnalytics, withAnalytics } from "./open-analytics.ts";
import { PatientClock } from "./patient-clock.ts";
import { openQueueService } from "./queue/open-queue-service.ts";
import { openTableService } from "./table/open-table-service.ts";
import type { TableContext } from "./table/table-operation.ts";
import type { Gate } from "./wire/gate.ts";
import type { Observer } from "./wire/observer.ts";
import { SERVICE_NAMES, type ServiceName } from "./wire/service-name.ts";

/** Who may call, and who vouches for them. */
export interface Callers {
  readonly accounts: Accounts;
  readonly bearer: BearerVerifier | undefined;
}

export interface ServicesOptions {
  readonly accounts: Accounts;
  /** Opened by the caller; closed with the services. */
  readonly engine: Engine;
  /** Default: the secondary endpoint of tables reads the engine, too. */
  readonly secondary?: SecondaryEngine | undefined;
  /**
   * Where blob contents too large for the engine's values are stored. Opened by the caller; closed with the
   * services. Default: files next to the data, if the engine stores it in a folder, so that every process
   * serving the folder finds them; otherwise many rows of the engine.
   */
  readonly contentStore?: ContentStore | undefined;
  readonly services: readonly ServiceName[];
  readonly bearer?: BearerVerifier | undefined;
  /** Whether the date of a signed request must be close to the server's clock. Default true. */
  readonly checkDate?: boolean;
  /** Whether `ACCOUNT.table.HOST` names an account. Default true. */
  readonly hostStyle?: boolean;
  /** Whether blob containers may be opened to callers without credentials. Default true. */
  readonly allowsPublicAccess?: boolean;
  readonly clock?: Clock;
  readonly observer?: Observer;
  /** The answer of `/readyz`. Default: ready, and the engine's name. */
  readonly health?: () => Awaitable<Health>;
  /** Observes the use of tables. Default none. */
  readonly insight?: Insight | undefined;
  /** Every request passes it before its operation runs. Default none. */
  readonly gate?: Gate | undefined;
  /** Times requests more precisely than the clock; see `RequestPipelineOptions`. */
  readonly stopwatch?: Stopwatch | undefined;
  /** The server's own pages on the Table service's port, in front of the service. Default none. */
  readonly pages?: readonly Page[] | undefined;
  /** More background work, started and closed with that of the services. */
  readonly background?: readonly BackgroundWork[] | undefined;
  /** Source of unguessable ids. Default: the operating system. */
  readonly randomBytes?: (count: number) => Buffer;
  /**
   * Receives errors that no answer reports: those of background work, which is retried, and those of
   * connections, which are then cut.
   */
  readonly onError?: (error: unknown) => void;
}

/** What answers the secondary endpoint of tables, in place of the engine. */
export interface SecondaryEngine {
  /** Only read from. Opened by the caller; closed with the services. */
  readonly engine: Engine;
  /** Every write acknowledged before is seen there: milliseconds since 1970; undefined if it cannot answer. */
  syncedAt(): Promise<number | undefined>;
}

/** The services, ready to answer requests from any transport. */
export interface OpenServices {
  readonly handles: ReadonlyMap<ServiceName, Handle>;
  /** See `RunningServer.admit`. */
  admit(callers: Callers): Promise<void>;
  /** See `RunningServer.empty`. */
  empty(account: string): Promise<void>;
  /** Stops background work, then closes the contents and the engine. */
  close(): Promise<void>;
}

export async function openServices(options: ServicesOptions): Promise<OpenServices> {
  const { engine, accounts } = options;
  const contentStore = options.contentStore ?? (await openContentsFolder(options));
  if (engine.supports.sharing) engine.takeSlot!(await drawSlot(engine));
  const accountIds = new Map(await openAccountIds(engine, accounts.names));
  const foundation = {
    engine,
    clock: options.clock ?? systemClock,
    ageClock: options.clock ?? new PatientClock(systemClock),
    accountIds,
    onError: options.onError ?? (() => {}),
  };
  const auth: { -readonly [Rule in keyof AuthRules]: AuthRules[Rule] } = {
    checkDate: options.checkDate ?? true,
    bearer: options.bearer,
  };
  const services = openEach({ ...options, contentStore }, foundation, auth);
  const settings = new Map(
    services.map(({ service }) => [service.name, service.context.properties]),
  );
  const analytics = openAnalytics(foundation, settings);
  const handles = openFronts(services, {
    ...options,
    secondaryService: openSecondary(options, foundation),
    onError: foundation.onError,
    clock: foundation.clock,
    observer: withAnalytics(analytics, options.observer),
    hostStyle: options.hostStyle ?? true,
    auth,
  });
  // The first request of an account may already have to be logged and counted, so its settings must be known.
  await Promise.all([...settings.values()].map((each) => each.remember(accounts.names)));
  const background = [
    ...[...services, analytics].flatMap((each) => each.background),
    ...(options.background ?? []),
  ];
  for (const work of background) work.start();
  return {
    handles,
    async admit(callers) {
      // Ids are kept for accounts that are no longer served: their data stays, and is still swept.
      for (const [name, id] of await openAccountIds(engine, callers.accounts.names))
        accountIds.set(name, id);
      await Promise.all(
        [...settings.values()].map((each) => each.remember(callers.accounts.names)),
      );
      accounts.replaceWith(callers.accounts);
      auth.bearer = callers.bearer;
    },
    async empty(account) {
      const contexts = services.map(({ service }) => service.context);
      await Promise.all(
        contexts.flatMap(({ catalog, properties }) => [
          catalog.removeAll(account),
          properties.reset(account),
        ]),
      );
      for (const { reaper } of contexts) reaper.wake();
    },
    async close() {
      await Promise.all(background.map((work) => work.close()));
      await contentStore?.close();
      await options.secondary?.engine.close();
      await engine.close();
    },
  };
}

/** Undefined where contents are stored in rows of the engine, or where no blobs are served. */
async function openContentsFolder({
  engine,
  services,
}: ServicesOptions): Promise<ContentStore | undefined> {
  if (engine.path === undefined || !services.includes("blob")) return undefined;
  return FileContentStore.open(join(engine.path, CONTENTS_FOLDER));
}

interface OpenService {
  readonly service: Service<{
    readonly catalog: Pick<Catalog<unknown>, "removeAll">;
    readonly properties: ServicePropertiesStore;
    readonly reaper: Pick<Reaper<unknown>, "wake">;
  }>;
  /** Not started yet. */
  readonly background: readonly BackgroundWork[];
}

/** Opens the requested services. */
function openEach(
  options: ServicesOptions,
  foundation: Foundation,
  auth: AuthRules,
): OpenService[] {
  const { accounts, allowsPublicAccess, contentStore, gate, insight, randomBytes } = options;
  const open = {
    blob: () =>
      openBlobService({ ...foundation, accounts, auth, contentStore, allowsPublicAccess, gate }),
    queue: () => openQueueService({ ...foundation, randomBytes }),
    table: () => openTableService({ ...foundation, gate, insight }),
  };
  return SERVICE_NAMES.filter((name) => options.services.includes(name)).map((name) =>
    open[name](),
  );
}

/** Nothing of it runs in the background, since nothing of it may write. */
function openSecondary(
  { secondary, gate, insight }: ServicesOptions,
  foundation: Foundation,
): Service<TableContext> | undefined {
  if (secondary === undefined) return undefined;
  const { engine, syncedAt } = secondary;
  return openTableService({ ...foundation, engine, gate, insight, syncedAt }).service;
}

/** One front per service, behind the server's own pages. */
function openFronts(
  services: readonly OpenService[],
  options: RequestPipelineOptions &
    Pick<ServicesOptions, "engine" | "health" | "pages"> &
    Pick<Foundation, "onError"> & {
      readonly secondaryService: Service<TableContext> | undefined;
    },
): ReadonlyMap<ServiceName, Handle> {
  const { engine, onError, secondaryService } = options;
  const ready = () => ({ ready: true, detail: { engine: engine.name } });
  const health = healthPages(options.health ?? ready);
  // Everything of the server's own, below /_rowhouse/, is on the port of tables.
  const forTables = [...health, ...(options.pages ?? [])];
  return new Map(
    services.map(({ service }) => {
      const isTable = service.name === "table";
      const pipeline = new RequestPipeline(service, options);
      const front =
        isTable && secondaryService
          ? withSecondary(pipeline, new RequestPipeline(secondaryService, options))
          : pipeline;
      const pages = isTable ? forTables : health;
      return [service.name, withPages(front, { pages, onError })] as const;
    }),
  );
}

/** The second one answers what is addressed to `ACCOUNT-secondary`, also when the first cannot reach its engine. */
function withSecondary(
  primary: RequestPipeline<never> | RequestPipeline<unknown>,
  secondary: RequestPipeline<TableContext>,
): Parameters<typeof withPages>[0] {
  return {
    handle: (raw) => (primary.isForSecondary(raw) ? secondary : primary).handle(raw),
    hostNamesAccount: (raw) => primary.hostNamesAccount(raw),
  };
}

export interface ServerOptions extends Omit<ServicesOptions, "services"> {
  /** The services to start, and the address of each. */
  readonly listen: Readonly<Partial<Record<ServiceName, ListenAddress>>>;
  readonly tls?: TlsMaterial | undefined;
  /** How requests are read; see `HttpServerOptions.lane`. Default "fast". */
  readonly lane?: "node" | "fast";
  /** The memory that clients of all ports may occupy. Default: sized by the available memory. */
  readonly memory?: PeerMemory;
  /** The connections of all ports. Default: as many as this process may open. */
  readonly open?: OpenConnections;
}

export interface ListenAddress {
  readonly host: string;
  readonly port: number;
}

export interface RunningServer {
  /** The URL of each started service, such as `http://127.0.0.1:10002`. */
  readonly urls: Readonly<Partial<Record<ServiceName, string>>>;
  /**
   * Serves other accounts and believes other issuers from now on, and shows another certificate to new connections.
   * @throws Error if the certificate cannot be used, or the engine fails; then nothing has changed
   */
  admit(callers: Callers & { readonly tls?: TlsMaterial | undefined }): Promise<void>;
  /** Removes every table, queue and container of an account, and its service properties. */
  empty(account: string): Promise<void>;
  /** Answers requests of this process as if they had arrived at the service's port. */
  readonly handles: ReadonlyMap<ServiceName, Handle>;
  /** Finishes requests in flight, refuses new ones, then closes the engine. */
  close(): Promise<void>;
}

/** The composition root: configuration in, running server out. */
export async function startServer(options: ServerOptions): Promise<RunningServer> {
  const { listen, tls, lane = "fast", memory = new PeerMemory() } = options;
  const { open = new OpenConnections() } = options;
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
          memory,
          open,
          carriesStreams: name === "blob",
          onError: options.onError ?? (() => {}),
        },
        services.handles.get(name)!,
      ).catch((cause: Error) => {
        throw new Error(`The ${name} service cannot listen: ${cause.message}`, { cause });
      });
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
    async admit({ accounts, bearer, tls: certificate }) {
      if (certificate) createSecureContext(certificate);
      await services.admit({ accounts, bearer });
      if (certificate) for (const server of servers) server.replaceCertificate(certificate);
    },
    empty: (account) => services.empty(account),
    handles: services.handles,
    async close() {
      await Promise.all(servers.map((server) => server.close()));
      await services.close();
    },
  };
}
