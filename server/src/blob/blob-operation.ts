import { ERROR_TEXTS, ServiceError } from "@rowhouse/protocol/errors";
import { LIMITS } from "@rowhouse/protocol/limits";
import type { Accounts } from "../auth/accounts.ts";
import type { AuthContext } from "../auth/auth-context.ts";
import type { Reaper } from "../catalog/reaper.ts";
import type { ServicePropertiesStore } from "../catalog/service-properties-store.ts";
import type { Clock } from "../clock.ts";
import type { ContentIds } from "../content/content-ids.ts";
import type { Engine } from "../engine/engine.ts";
import type { Gate } from "../wire/gate.ts";
import type { Operation, RequestHead } from "../wire/operation.ts";
import { checkResourceName } from "../wire/resource-name.ts";
import type { AppendQueue } from "./append-queue.ts";
import type { Readable } from "./blob-access.ts";
import type { BlobName } from "./blob-keys.ts";
import type { ContainerValue } from "./container-value.ts";
import type { BlockCounts } from "./content-life/block-counts.ts";
import type { Contents } from "./content-life/contents.ts";
import type { Notes } from "./content-life/notes.ts";
import type { Readers } from "./content-life/readers.ts";
import type { BlobResource } from "./locate.ts";

/** The context of all blob operations. */
export interface BlobContext extends Readable {
  readonly engine: Engine;
  readonly clock: Clock;
  readonly contents: Contents;
  readonly appends: AppendQueue;
  readonly blockCounts: BlockCounts;
  readonly ids: ContentIds;
  readonly notes: Notes;
  readonly readers: Readers;
  readonly properties: ServicePropertiesStore;
  readonly reaper: Reaper<ContainerValue>;
  /** For the sources of copies, which may carry their own credentials. */
  readonly auth: AuthContext;
  /** The accounts of this server: each may be the source of a copy. */
  readonly accounts: Pick<Accounts, "find">;
  /** For operations inside a batch; all others have passed the gate before they run. */
  readonly gate: Gate | undefined;
}

export type BlobOperation<Input, Output> = Operation<BlobContext, Input, Output, BlobResource>;

/** Containers with a special meaning, which can be created like any other. */
const SPECIAL_CONTAINERS = new Set(["$root", "$web"]);

/** The container of the analytics log. Only the service writes to it; users may read and delete its blobs. */
export const LOG_CONTAINER = "$logs";
const VERBS_FOR_LOGS = new Set(["GET", "HEAD", "DELETE"]);

/**
 * The container a request names. Every operation calls it, so that only valid names are looked up and only
 * the service writes to the log.
 * @throws ServiceError OutOfRangeInput, InvalidResourceName or AuthorizationFailure.
 */
export function containerNameOf({
  location,
  verb,
}: Pick<RequestHead, "location" | "verb">): string {
  const { name, resource } = location;
  if (name === LOG_CONTAINER) {
    const isRemoval = verb === "DELETE" && resource === "container";
    if (!VERBS_FOR_LOGS.has(verb) || isRemoval) throw new ServiceError("AuthorizationFailure");
  } else if (!SPECIAL_CONTAINERS.has(name)) {
    checkResourceName(name);
  }
  return name;
}

/**
 * The blob a request names. There are no snapshots or versions, and a request for one must not reach the blob
 * itself.
 * @throws ServiceError OutOfRangeInput, InvalidResourceName, AuthorizationFailure, InvalidUri or
 * BlobNotFound.
 */
export function blobNameOf(
  request: Pick<RequestHead, "location" | "query" | "verb"> & {
    readonly account: Pick<RequestHead["account"], "name">;
  },
): BlobName {
  const { account, location, query } = request;
  const container = containerNameOf(request);
  const blob = location.item ?? "";
  const segments = blob.split("/").length;
  if (blob.length > LIMITS.blobNameLengthMax || segments > LIMITS.blobNameSegmentsMax) {
    throw new ServiceError("OutOfRangeInput", { message: ERROR_TEXTS.nameLength });
  }
  // The root container has no folders; such a path names a container that cannot exist.
  if (container === "$root" && segments > 1) throw new ServiceError("InvalidUri");
  if (query.get("snapshot") || query.get("versionid")) throw new ServiceError("BlobNotFound");
  return { account: account.name, container, blob };
}

/** Sent with the answer to every successful write of content, properties or metadata. */
export const ENCRYPTED = ["x-ms-request-server-encrypted", "true"] as const;
