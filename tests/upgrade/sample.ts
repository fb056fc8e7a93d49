import { TableClient } from "@azure/data-tables";
import { QueueServiceClient } from "@azure/storage-queue";

/** The contents of a sample folder of a storage format, written and read by official clients. */
export const SAMPLE_ENTITIES = [
  { partitionKey: "", rowKey: "", kind: "empty keys" },
  { partitionKey: "p", rowKey: "1", text: 'æøå 𝒳 "quoted"', whole: 5, yes: true },
  { partitionKey: "p", rowKey: "2", half: 1.5, when: new Date("2012-11-10T03:04:05.200Z") },
  { partitionKey: "p\uffee", rowKey: "𝒳", big: { type: "Int64", value: "9007199254740993" } },
  {
    partitionKey: "q",
    rowKey: "r",
    id: { type: "Guid", value: "c9da6455-213d-42c9-9a79-3e9149a57833" },
  },
] as const;

export async function writeSample(connectionString: string): Promise<void> {
  const table = TableClient.fromConnectionString(connectionString, "Sample", {
    allowInsecureConnection: true,
  });
  await table.createTable();
  for (const entity of SAMPLE_ENTITIES) await table.createEntity(entity);
  const removed = TableClient.fromConnectionString(connectionString, "Removed", {
    allowInsecureConnection: true,
  });
  await removed.createTable();
  await removed.createEntity({ partitionKey: "gone", rowKey: "gone" });
  await removed.deleteTable();
  const queue = QueueServiceClient.fromConnectionString(connectionString).getQueueClient("sample");
  await queue.create({ metadata: { owner: "upgrade" } });
  await queue.sendMessage("still here", { messageTimeToLive: -1 });
}
