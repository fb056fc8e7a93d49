import { tableError } from "../errors.ts";
import type { BlobsPort } from "../ports/blobs.ts";
import type { QueuesPort } from "../ports/queues.ts";
import type { Session } from "./session.ts";

/** @throws unsupported-by-profile when the database was connected without queues. */
export function queuesOf(session: Session): QueuesPort {
  return session.queues ?? missingPort(session, "queues");
}

/** @throws unsupported-by-profile when the database was connected without blobs. */
export function blobsOf(session: Session): BlobsPort {
  return session.blobs ?? missingPort(session, "blobs");
}

function missingPort({ profile }: Session, feature: string): never {
  const payload = { profile: profile.name, feature };
  const remedy = `connect({ tables, ${feature} }).`;
  throw tableError("unsupported-by-profile", `This needs ${feature}.`, payload, { remedy });
}
