import { ERROR_TEXTS, type ErrorCode, ServiceError } from "@rowhouse/protocol/errors";

/**
 * A lease lets only its holder write or delete a blob, or delete a container. Its state is derived from the
 * stored lease and the time; nothing sweeps it:
 *
 *   available ──acquire──▶ leased ──duration runs out──▶ expired ──renew, acquire──▶ leased
 *                            │                              │
 *                          break                          break
 *                            ▼                              ▼
 *                         breaking ──period runs out──▶  broken ──acquire──▶ leased
 *
 * The holder may release the lease in any state, which makes it available. So does a write to a blob whose
 * lease is expired or broken. Source: "Lease Blob", "Lease Container".
 */
export interface Lease {
  /** A GUID in lower case, with hyphens. */
  readonly id: string;
  /** -1 for an infinite lease. */
  readonly seconds: number;
  /** When a finite lease ends, in milliseconds since 1970. */
  readonly endsAt?: number;
  /** When the break period ends; set once the lease is broken. */
  readonly brokenAt?: number;
}

export type LeaseState = "available" | "leased" | "expired" | "breaking" | "broken";

export function leaseState(lease: Lease | undefined, now: number): LeaseState {
  if (lease === undefined) return "available";
  if (lease.brokenAt !== undefined) return lease.brokenAt > now ? "breaking" : "broken";
  return lease.endsAt === undefined || lease.endsAt > now ? "leased" : "expired";
}

export function isLocked(state: LeaseState): boolean {
  return state === "leased" || state === "breaking";
}

/** The lease after a write, which removes one that no longer locks. */
export function leaseAfterWrite(lease: Lease | undefined, now: number): Lease | undefined {
  return isLocked(leaseState(lease, now)) ? lease : undefined;
}

/** A lease operation. Ids are GUIDs in lower case. */
export type LeaseAction =
  | { readonly action: "acquire"; readonly seconds: number; readonly proposedId: string }
  | { readonly action: "renew" | "release"; readonly id: string }
  | { readonly action: "change"; readonly id: string; readonly proposedId: string }
  | { readonly action: "break"; readonly periodSeconds: number | undefined };

/**
 * The lease after an action; undefined once released.
 * @throws ServiceError 409 for an action that the state does not allow.
 */
export function actOnLease(
  lease: Lease | undefined,
  asked: LeaseAction,
  now: number,
): Lease | undefined {
  switch (asked.action) {
    case "acquire":
      return acquire(lease, asked.proposedId, asked.seconds, now);
    case "renew":
      return renew(lease, asked.id, now);
    case "change":
      return change(lease, asked.id, asked.proposedId, now);
    case "release":
      if (lease?.id !== asked.id) throw new ServiceError("LeaseIdMismatchWithLeaseOperation");
      return undefined;
    case "break":
      return breakLease(lease, asked.periodSeconds, now);
  }
}

/** Whole seconds until a breaking lease is broken. */
export function secondsUntilBroken(lease: Lease, now: number): number {
  return Math.max(0, Math.ceil(((lease.brokenAt ?? now) - now) / 1000));
}

function acquire(
  lease: Lease | undefined,
  proposedId: string,
  seconds: number,
  now: number,
): Lease {
  const state = leaseState(lease, now);
  const isOwn = lease?.id === proposedId;
  if (state === "breaking") {
    throw new ServiceError(isOwn ? "LeaseIsBreakingAndCannotBeAcquired" : "LeaseAlreadyPresent");
  }
  if (state === "leased" && !isOwn) throw new ServiceError("LeaseAlreadyPresent");
  return begin(proposedId, seconds, now);
}

function renew(lease: Lease | undefined, id: string, now: number): Lease {
  if (lease?.id !== id) throw new ServiceError("LeaseIdMismatchWithLeaseOperation");
  if (lease.brokenAt !== undefined) throw new ServiceError("LeaseIsBrokenAndCannotBeRenewed");
  return begin(id, lease.seconds, now);
}

function change(lease: Lease | undefined, id: string, proposedId: string, now: number): Lease {
  const state = leaseState(lease, now);
  if (lease === undefined || !isLocked(state)) {
    throw new ServiceError("LeaseNotPresentWithLeaseOperation");
  }
  // A retry of a change that succeeded presents the old id: the new one is already current.
  const isKnown = lease.id === id || lease.id === proposedId;
  if (!isKnown) throw new ServiceError("LeaseIdMismatchWithLeaseOperation");
  if (state === "breaking") throw new ServiceError("LeaseIsBreakingAndCannotBeChanged");
  return { ...lease, id: proposedId };
}

function breakLease(
  lease: Lease | undefined,
  periodSeconds: number | undefined,
  now: number,
): Lease {
  if (lease === undefined) throw new ServiceError("LeaseNotPresentWithLeaseOperation");
  const period = periodSeconds === undefined ? undefined : now + periodSeconds * 1000;
  switch (leaseState(lease, now)) {
    case "leased": {
      // A finite lease is broken no later than its end; an infinite one is broken immediately by default.
      const end = lease.endsAt ?? period ?? now;
      return { ...lease, brokenAt: Math.min(period ?? end, end) };
    }
    case "breaking":
      return { ...lease, brokenAt: Math.min(period ?? lease.brokenAt!, lease.brokenAt!) };
    case "broken":
      return lease;
    default:
      return { ...lease, brokenAt: now };
  }
}

function begin(id: string, seconds: number, now: number): Lease {
  return seconds < 0 ? { id, seconds } : { id, seconds, endsAt: now + seconds * 1000 };
}

/** Selects the error codes. */
export type Leased = "blob" | "container";

/**
 * Checks a write or delete against the lease id that came with it.
 * @throws ServiceError 412, see the codes below.
 */
export function checkLeaseForWrite(
  lease: Lease | undefined,
  id: string | undefined,
  now: number,
  leased: Leased,
): void {
  if (id === undefined && isLocked(leaseState(lease, now))) {
    throw new ServiceError(
      "LeaseIdMissing",
      leased === "container" ? { message: ERROR_TEXTS.containerLeaseIdMissing } : {},
    );
  }
  checkLeaseForRead(lease, id, now, leased);
}

/** The same for operations that need no lease: an id that is sent must still match. */
export function checkLeaseForRead(
  lease: Lease | undefined,
  id: string | undefined,
  now: number,
  leased: Leased,
): void {
  if (id === undefined) return;
  const words = WORDS[leased];
  if (isLocked(leaseState(lease, now))) {
    if (lease?.id !== id) throw new ServiceError(words.mismatch);
  } else {
    throw new ServiceError(lease?.id === id ? words.lost : words.notPresent);
  }
}

const WORDS = {
  blob: {
    mismatch: "LeaseIdMismatchWithBlobOperation",
    notPresent: "LeaseNotPresentWithBlobOperation",
    lost: "LeaseLost",
  },
  container: {
    mismatch: "LeaseIdMismatchWithContainerOperation",
    notPresent: "LeaseNotPresentWithContainerOperation",
    lost: "LeaseNotPresentWithContainerOperation",
  },
} as const satisfies Record<Leased, Record<string, ErrorCode>>;

/** `x-ms-lease-status`, `-state` and, while leased, `-duration`: alternating names and values. */
export function leaseHeaders(lease: Lease | undefined, now: number): string[] {
  const state = leaseState(lease, now);
  const headers = [
    "x-ms-lease-status",
    isLocked(state) ? "locked" : "unlocked",
    "x-ms-lease-state",
    state,
  ];
  if (state === "leased") headers.push("x-ms-lease-duration", leaseDuration(lease!));
  return headers;
}

export function leaseDuration({ seconds }: Lease): "infinite" | "fixed" {
  return seconds < 0 ? "infinite" : "fixed";
}
