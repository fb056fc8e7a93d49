import { ServiceError } from "@rowhouse/protocol/errors";
import type { Awaitable } from "../awaitable.ts";
import type { Operation } from "../wire/operation.ts";
import type { DocumentRules } from "../xml/document-rules.ts";
import { parseServiceProperties } from "../xml/parse-service-properties.ts";
import { printServiceProperties } from "../xml/print-service-properties.ts";
import { xmlResponse } from "../xml/print-xml.ts";
import type { ServiceProperties, ServicePropertiesChange } from "../xml/service-properties.ts";
import { printServiceStats } from "../xml/service-stats.ts";
import type { ServicePropertiesStore } from "./service-properties-store.ts";

interface ServiceContext {
  readonly properties: ServicePropertiesStore;
  /** Where the secondary endpoint reads another engine: until when it has everything, see `printServiceStats`. */
  readonly syncedAt?: (() => Awaitable<number | undefined>) | undefined;
}

/** Get Service Properties. */
export function getServiceProperties(
  name: string,
  rules: DocumentRules,
): Operation<ServiceContext, string, ServiceProperties> {
  return {
    name,
    route: { method: "GET", resource: "service", comp: "properties" },
    access: { resourceType: "s", accountSas: ["r"], serviceSas: [], bearer: "read" },
    decode: ({ account }) => account.name,
    run: ({ properties }, account) => properties.read(account),
    encode: (properties) => xmlResponse(200, printServiceProperties(properties, rules)),
  };
}

interface ServicePropertiesInput {
  readonly account: string;
  readonly change: ServicePropertiesChange;
}

/** Set Service Properties: replaces the given groups and keeps the others. */
export function setServiceProperties(
  name: string,
  rules: DocumentRules,
): Operation<ServiceContext, ServicePropertiesInput, void> {
  return {
    name,
    route: { method: "PUT", resource: "service", comp: "properties" },
    access: { resourceType: "s", accountSas: ["w"], serviceSas: [], bearer: "write" },
    body: "buffer",
    decode: ({ account, body }) => ({
      account: account.name,
      change: parseServiceProperties(body, rules),
    }),
    run: ({ properties }, { account, change }) => properties.change(account, change),
    encode: () => ({ status: 202, headers: [] }),
  };
}

/**
 * Get Service Stats, available only at the secondary endpoint. Mostly both endpoints read one engine, so the replica
 * is live and never behind.
 */
export function getServiceStats(
  name: string,
): Operation<ServiceContext, number, number | undefined> {
  return {
    name,
    route: { method: "GET", resource: "service", comp: "stats" },
    access: { resourceType: "s", accountSas: ["r"], serviceSas: [], bearer: "read" },
    decode(request) {
      if (!request.secondary) {
        throw new ServiceError("InvalidQueryParameterValue", {
          details: [
            ["QueryParameterName", "comp"],
            ["QueryParameterValue", request.query.get("comp") ?? ""],
            ["Reason", "Only the secondary endpoint has statistics."],
          ],
        });
      }
      return request.arrivedAt;
    },
    run: ({ syncedAt }, arrivedAt) => (syncedAt ? syncedAt() : arrivedAt),
    encode: (lastSyncedAt) => xmlResponse(200, printServiceStats(lastSyncedAt)),
  };
}
