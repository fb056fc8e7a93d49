import type { Accounts } from "./auth/account-settings.ts";
import type { BearerVerifier } from "./auth/bearer.ts";
import { openAccountIds } from "./catalog/account-ids.ts";
import { Catalog } from "./catalog/catalog.ts";
import { KEY_SPACES } from "./catalog/key-spaces.ts";
import { Reaper } from "./catalog/reaper.ts";
import { ServicePropertiesStore } from "./catalog/service-properties-store.ts";
import { type Clock, systemClock } from "./clock.ts";
import type { Engine } from "./engine/engine.ts";
import { partitionPrefixRange } from "./engine/key-codec.ts";
import { Front } from "./http/front.ts";
import { type Health, withHealth } from "./http/health.ts";
import { HttpServer, type TlsMaterial } from "./http/http-server.ts";
import type { Handle } from "./http/node-listener.ts";
import type { Observer } from "./http/observer.ts";
import { EntityStore, type TableValue } from "./table/entity-store.ts";
import { tablePrefix } from "./table/table-keys.ts";
import { tableService } from "./table/table-service.ts";
import { TABLE_DOCUMENTS } from "./xml/document-rules.ts";

export interface ServicesOptions {
  readonly accounts: Accounts;
  /** Opened by the caller, closed with the services. */
  readonly engine: Engine;
  readonly services: readonly ServiceName[];
  readonly bearer?: BearerVerifier | undefined;
  /** Whether signed dates must be near the clock. Default true. */
  readonly checkDate?: boolean;
  /** Whether `ACCOUNT.table.HOST` names an account. Default true. */
  readonly hostStyle?: boolean;
  readonly clock?: Clock;
  readonly observer?: Observer;
  /**
   * Told of faults that no answer tells of: in background work, which is tried again, and with
   * connections, which are then cut.
   */
  readonly onBackgroundError?: (error: unknown) => void;
}

export type ServiceName = "table";

/** The services, ready to answer requests however these come. */
export interface OpenServices {
  readonly handles: ReadonlyMap<ServiceName, Handle>;
  /** Ends background work and closes the engine. */
  close(): Promise<void>;
}

export async function openServices(options: ServicesOptions): Promise<OpenServices> {
  const { engine, accounts } = options;
  const clock = options.clock ?? systemClock;
  const onError = options.onBackgroundError ?? (() => {});
  const accountIds = await openAccountIds(engine, accounts.names);
  const frontOptions = {
    accounts,
    clock,
    observer: options.observer ?? { finished() {} },
    hostStyle: options.hostStyle ?? true,
    auth: { checkDate: options.checkDate ?? true, bearer: options.bearer },
  };
  const health = (): Health => ({ ready: true, detail: { engine: engine.name } });
  const handles = new Map<ServiceName, Handle>();
  const closers: (() => Promise<void>)[] = [];

  if (options.services.includes("table")) {
    const catalog = new Catalog<TableValue>(engine, KEY_SPACES.tableCatalog, accountIds);
    const reaper = new Reaper({
      engine,
      catalog,
      contentsOf: (accountId, tableId) => partitionPrefixRange(tablePrefix(accountId, tableId)),
      onError,
    });
    const properties = new ServicePropertiesStore({
      engine,
      clock,
      space: KEY_SPACES.tableCatalog,
      accountIds,
      rules: TABLE_DOCUMENTS,
    });
    const entities = new EntityStore(engine, catalog);
    const service = tableService({ engine, clock, catalog, entities, properties, reaper });
    const front = new Front(service, frontOptions);
    handles.set(
      "table",
      withHealth((request) => front.handle(request), health),
    );
    reaper.start();
    closers.push(() => reaper.close());
  }

  return {
    handles,
    async close() {
      await Promise.all(closers.map((close) => close()));
      await engine.close();
    },
  };
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
  const names = (["table"] as const).filter((name) => listen[name]);
  const services = await openServices({ ...options, services: names });
  const urls: Partial<Record<ServiceName, string>> = {};
  const servers: HttpServer[] = [];
  try {
    for (const name of names) {
      const server = await HttpServer.listen(
        { ...listen[name]!, tls, lane, onFault: options.onBackgroundError ?? (() => {}) },
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
