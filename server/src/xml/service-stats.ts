import type { DocumentRules } from "./document-rules.ts";
import { printDocument, printElement, printLeaf } from "./print-xml.ts";

/** How far a read-only secondary endpoint lags behind. */
export interface ServiceStats {
  readonly status: "live" | "bootstrap" | "unavailable";
  /** Milliseconds since 1970; undefined where nothing was copied yet. */
  readonly lastSyncedAt: number | undefined;
}

/** The body of Get Service Stats. */
export function printServiceStats(stats: ServiceStats, rules: DocumentRules): string {
  const { status, lastSyncedAt } = stats;
  const time = lastSyncedAt === undefined ? "" : new Date(lastSyncedAt).toUTCString();
  const replication = printLeaf("Status", status) + printLeaf("LastSyncTime", time);
  return printDocument(
    printElement("StorageServiceStats", printElement("GeoReplication", replication)),
    rules,
  );
}
