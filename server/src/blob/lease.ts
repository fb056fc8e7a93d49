import { ERROR_TEXTS, type ErrorCode, ServiceError } from "@rowhouse/protocol/errors";

/**
 * A lease: for its holder alone to write and delete a blob, or to delete a container. Its state is
 * derived from the stored lease and the time, never swept:
 *
 *   available ──acquire──▶ leased ──duration runs out──▶ expired ──renew, acquire──▶ leased
 *                            │                              │
 *                          break                          break
 *                            ▼                              ▼
 *                         breaking ──period runs out──▶  broken ──acquire──▶ leased
 *
 * Whatever the state, its holder may release it (available). A write to a blob whose lease is
 * expired or broken makes it available. Source: "Lease Blob", "Lease Container".
 */
export interface Lease {
  /** A GUID in lower case, with hyphens. */
  readonly id: string;
  /** -1 for a lease without end. */
  readonly seconds: number;
  /** When a lease with an end ends, in milliseconds since 1970. */
  readonly endsAt?: number;
  /** When the break period is over; set once it is broken. */
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

/** What a write leaves of a lease: one that holds nobody off any more is gone. */
export function leaseAfterWrite(lease: Lease | undefined, now: number): Lease | undefined {
  return isLocked(leaseState(lease, now)) ? lease : undefined;
}

/** What a lease operation asks for. Ids are GUIDs in lower case. */
export type LeaseAction =
  | { readonly action: "acquire"; readonly seconds: number; readonly proposedId: string }
  | { readonly action: "renew" | "release"; readonly id: string }
  | { readonly action: "change"; readonly id: string; readonly proposedId: string }
  | { readonly action: "break"; readonly periodSeconds: number | undefined };

/**
 * The lease after an action; undefined when it is released.
 * @throws ServiceError 409 for everything the state does not allow.
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

/** Whole seconds until a lease that is being broken is broken. */
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
  // Sent again after it had worked: the new id is the current one already.
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
      // A lease with an end is broken by then at the latest; one without is broken at once.
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

/** Whose lease it is decides the words. */
export type Leased = "blob" | "container";

/**
 * Judges a write, or a delete, by the lease id that came with it.
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

/** The same for what needs no lease: an id that is sent must still be right. */
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

/** `x-ms-lease-status`, `-state` and, while leased, `-duration`: names and values in turn. */
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
