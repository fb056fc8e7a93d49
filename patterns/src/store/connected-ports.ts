import type { Database } from "../database.ts";
import { tableError } from "../errors.ts";
import type { BlobsPort } from "../ports/blobs.ts";
import type { QueuesPort } from "../ports/queues.ts";

/** @throws unsupported-by-profile when the database was connected without queues. */
export function queuesOf(database: Database): QueuesPort {
  return database.queues ?? missingPort(database, "queues");
}

/** @throws unsupported-by-profile when the database was connected without blobs. */
export function blobsOf(database: Database): BlobsPort {
  return database.blobs ?? missingPort(database, "blobs");
}

function missingPort({ profile }: Database, feature: string): never {
  const payload = { profile: profile.name, feature };
  const remedy = `connect({ tables, ${feature} }).`;
  throw tableError("unsupported-by-profile", `This needs ${feature}.`, payload, { remedy });
}
