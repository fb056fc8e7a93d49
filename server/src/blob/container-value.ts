import type { AccessPolicy } from "@rowhouse/protocol/access-policy";
import type { Metadata } from "../wire/metadata.ts";
import type { Lease } from "./lease.ts";

/** The catalog's value for a container. */
export interface ContainerValue {
  /** Microseconds since 1970; see `validators.ts`. */
  readonly modified: number;
  readonly metadata: Metadata;
  /** What anonymous callers may read; absent: nothing. */
  readonly publicAccess?: PublicAccess | undefined;
  readonly policies: readonly AccessPolicy[];
  readonly lease?: Lease | undefined;
}

/** Anonymous callers may read blobs whose names they know, or also list them. */
export type PublicAccess = "blob" | "container";
