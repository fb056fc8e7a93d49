import { printDocument, printElement, printLeaf } from "./print-xml.ts";

/**
 * The body of Get Service Stats, for a secondary endpoint that is live.
 * @param lastSyncedAt milliseconds since 1970
 */
export function printServiceStats(lastSyncedAt: number): string {
  const time = new Date(lastSyncedAt).toUTCString();
  const replication = printLeaf("Status", "live") + printLeaf("LastSyncTime", time);
  return printDocument(
    printElement("StorageServiceStats", printElement("GeoReplication", replication)),
  );
}
