import type { Clock } from "../clock.ts";
import type { Engine } from "../engine/engine.ts";
import type { DocumentRules } from "../xml/document-rules.ts";
import { Catalog } from "./catalog.ts";
import type { KeySpace } from "./key-spaces.ts";
import { Reaper, type ReaperOptions } from "./reaper.ts";
import { ServicePropertiesStore } from "./service-properties-store.ts";

/** The parts that every service is built on. */
export interface Foundation {
  readonly engine: Engine;
  readonly clock: Clock;
  /** The clock that decides what is old enough to be freed. */
  readonly ageClock: Clock;
  readonly accountIds: ReadonlyMap<string, number>;
  readonly onError: (error: unknown) => void;
}

/** The options in which the services differ. */
interface CatalogOptions<Value> extends Pick<ReaperOptions<Value>, "contentsOf" | "release"> {
  readonly space: KeySpace;
  readonly rules: DocumentRules;
}

/** A service's catalog of names, the properties of its accounts, and the reaper of removed names. */
export function openCatalog<Value>(foundation: Foundation, options: CatalogOptions<Value>) {
  const { engine, clock, accountIds, onError } = foundation;
  const { space, rules, ...contents } = options;
  const catalog = new Catalog<Value>(engine, space, accountIds, clock);
  const reaper = new Reaper({ engine, catalog, onError, ...contents });
  const properties = new ServicePropertiesStore({ engine, clock, space, accountIds, rules });
  return { catalog, reaper, properties };
}
