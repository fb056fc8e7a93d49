import assert from "node:assert/strict";
import type { CorsRule } from "./cors-rules.ts";
import type { DocumentRules } from "./document-rules.ts";

/**
 * The settings of one service of an account. The last three exist only for blobs; soft delete and
 * static websites cannot be enabled.
 */
export interface ServiceProperties {
  readonly logging: Logging;
  readonly hourMetrics: Metrics;
  readonly minuteMetrics: Metrics;
  readonly cors: readonly CorsRule[];
  /** Protocol version of requests that name none; absent until it is set. */
  readonly defaultServiceVersion?: string;
  readonly deleteRetentionPolicy?: { readonly enabled: false };
  readonly staticWebsite?: StaticWebsite;
}

export interface Logging {
  readonly read: boolean;
  readonly write: boolean;
  readonly delete: boolean;
  readonly retentionDays: RetentionDays;
}

export type Metrics =
  | { readonly enabled: false; readonly retentionDays: RetentionDays }
  | {
      readonly enabled: true;
      readonly includeApis: boolean;
      readonly retentionDays: RetentionDays;
    };

/** 1 to 365; null if nothing is ever removed. */
export type RetentionDays = number | null;

export interface StaticWebsite {
  readonly enabled: false;
  readonly indexDocument?: string;
  readonly errorDocument404Path?: string;
  readonly defaultIndexDocumentPath?: string;
}

/** The groups that a request replaces, each as a whole. */
export type ServicePropertiesChange = Partial<ServiceProperties>;

/** The properties of an account on which none were set. */
export function defaultServiceProperties(rules: DocumentRules): ServiceProperties {
  const off: Metrics = { enabled: false, retentionDays: null };
  const on: Metrics = { enabled: true, includeApis: true, retentionDays: 7 };
  const properties: ServiceProperties = {
    logging: { read: false, write: false, delete: false, retentionDays: null },
    hourMetrics: rules.hourMetricsByDefault ? on : off,
    minuteMetrics: off,
    cors: [],
  };
  if (!rules.groups.includes("StaticWebsite")) return properties;
  return {
    ...properties,
    deleteRetentionPolicy: { enabled: false },
    staticWebsite: { enabled: false },
  };
}

/** Encodes properties as JSON, the form in which an engine stores them. */
export function encodeServiceProperties(properties: ServiceProperties): Uint8Array {
  return new TextEncoder().encode(JSON.stringify(properties));
}

export function decodeServiceProperties(stored: Uint8Array): ServiceProperties {
  const properties: ServiceProperties = JSON.parse(new TextDecoder().decode(stored));
  const { logging, hourMetrics, minuteMetrics, cors } = properties;
  assert(
    logging && hourMetrics && minuteMetrics && Array.isArray(cors),
    "Stored service properties lack logging, hourMetrics, minuteMetrics or cors.",
  );
  return properties;
}
