import type { Clock } from "../clock.ts";
import type { Engine } from "../engine/engine.ts";
import type { DocumentRules } from "../xml/document-rules.ts";
import { Catalog } from "./catalog.ts";
import type { KeySpace } from "./key-spaces.ts";
import { Reaper, type ReaperOptions } from "./reaper.ts";
import { ServicePropertiesStore } from "./service-properties-store.ts";

/** What every service is put together on. */
export interface Foundation {
  readonly engine: Engine;
  readonly clock: Clock;
  /** By which things are old enough to be freed. */
  readonly ageClock: Clock;
  readonly accountIds: ReadonlyMap<string, number>;
  readonly onError: (error: unknown) => void;
}

/** Where the services differ about it. */
interface CatalogOptions<Value> extends Pick<ReaperOptions<Value>, "contentsOf" | "release"> {
  readonly space: KeySpace;
  readonly rules: DocumentRules;
}

/** What a service knows of its accounts: its names and its properties, and who frees what was removed. */
export function openCatalog<Value>(foundation: Foundation, options: CatalogOptions<Value>) {
  const { engine, clock, accountIds, onError } = foundation;
  const { space, rules, ...contents } = options;
  const catalog = new Catalog<Value>(engine, space, accountIds, clock);
  const reaper = new Reaper({ engine, catalog, onError, ...contents });
  const properties = new ServicePropertiesStore({ engine, clock, space, accountIds, rules });
  return { catalog, reaper, properties };
}
