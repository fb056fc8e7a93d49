import { printDocument, printElement, printLeaf } from "./print-xml.ts";

/**
 * The body of Get Service Stats.
 * @param lastSyncedAt milliseconds since 1970; undefined if the secondary endpoint cannot answer
 */
export function printServiceStats(lastSyncedAt: number | undefined): string {
  const isLive = lastSyncedAt !== undefined;
  const time = isLive ? new Date(lastSyncedAt).toUTCString() : "";
  const status = printLeaf("Status", isLive ? "live" : "unavailable");
  const replication = status + printLeaf("LastSyncTime", time);
  return printDocument(
    printElement("StorageServiceStats", printElement("GeoReplication", replication)),
  );
}
