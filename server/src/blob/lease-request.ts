import { randomUUID } from "node:crypto";
import { LIMITS } from "@rowhouse/protocol/limits";
import { invalidHeader, missingHeader, requiredHeader } from "../wire/header-values.ts";
import type { RequestHead, WireRequest, WireResponse } from "../wire/operation.ts";
import { type Lease, type LeaseAction, secondsUntilBroken } from "./lease.ts";
import { validatorHeaders } from "./validators.ts";

/* Reads and answers lease requests, which are the same for Lease Blob and Lease Container. */

/** A lease action, before an id is generated for an acquire that proposes none. */
export type LeaseRequest =
  | Exclude<LeaseAction, { action: "acquire" }>
  | {
      readonly action: "acquire";
      readonly seconds: number;
      readonly proposedId: string | undefined;
    };

/** Generates the id once, however often the change must be retried. */
export function withId(asked: LeaseRequest): LeaseAction {
  return asked.action === "acquire"
    ? { ...asked, proposedId: asked.proposedId ?? randomUUID() }
    : asked;
}

/** The right to delete suffices to break a lease. */
export function leaseAccess(resourceType: "o" | "c") {
  return (request: WireRequest) => {
    const breaks = request.header("x-ms-lease-action")?.toLowerCase() === "break";
    const letters = breaks ? ["w", "d"] : ["w"];
    const serviceSas = resourceType === "o" ? letters : [];
    return { resourceType, accountSas: letters, serviceSas, bearer: "write" } as const;
  };
}

/** The lease id that the caller presents. @throws ServiceError InvalidHeaderValue */
export function leaseIdOf(head: RequestHead): string | undefined {
  return guidHeader(head, "x-ms-lease-id");
}

/** @throws ServiceError MissingRequiredHeader or InvalidHeaderValue. */
export function leaseRequestOf(head: RequestHead): LeaseRequest {
  const action = requiredHeader(head, "x-ms-lease-action").toLowerCase();
  switch (action) {
    case "acquire":
      return {
        action,
        seconds: durationOf(head),
        proposedId: guidHeader(head, "x-ms-proposed-lease-id"),
      };
    case "renew":
    case "release":
      return { action, id: requiredGuid(head, "x-ms-lease-id") };
    case "change":
      return {
        action,
        id: requiredGuid(head, "x-ms-lease-id"),
        proposedId: requiredGuid(head, "x-ms-proposed-lease-id"),
      };
    case "break":
      return { action, periodSeconds: breakPeriodOf(head) };
    default:
      throw invalidHeader("x-ms-lease-action", action);
  }
}

const GUID =
  /^[{(]?([0-9a-f]{8})-?([0-9a-f]{4})-?([0-9a-f]{4})-?([0-9a-f]{4})-?([0-9a-f]{12})[)}]?$/i;

/**
 * A GUID in any of its forms, converted to lower case with hyphens; undefined when the header is absent.
 * @throws ServiceError InvalidHeaderValue
 */
function guidHeader(head: RequestHead, name: string): string | undefined {
  const text = head.header(name);
  if (text === undefined || text === "") return undefined;
  const parts = GUID.exec(text.trim());
  if (parts === null) throw invalidHeader(name, text);
  return parts.slice(1).join("-").toLowerCase();
}

function requiredGuid(head: RequestHead, name: string): string {
  const id = guidHeader(head, name);
  if (id === undefined) throw missingHeader(name);
  return id;
}

function durationOf(head: RequestHead): number {
  const name = "x-ms-lease-duration";
  const text = requiredHeader(head, name);
  const seconds = Number(text);
  const isAllowed =
    seconds === -1 || (seconds >= LIMITS.leaseSecondsMin && seconds <= LIMITS.leaseSecondsMax);
  if (!/^-?\d{1,3}$/.test(text) || !isAllowed) throw invalidHeader(name, text);
  return seconds;
}

function breakPeriodOf(head: RequestHead): number | undefined {
  const name = "x-ms-lease-break-period";
  const text = head.header(name);
  if (text === undefined || text === "") return undefined;
  if (!/^\d{1,3}$/.test(text) || Number(text) > LIMITS.leaseBreakSecondsMax) {
    throw invalidHeader(name, text);
  }
  return Number(text);
}

const STATUS = { acquire: 201, renew: 200, change: 200, release: 200, break: 202 } as const;

/** The result of a lease action; `modified` is that of the blob or container. */
export interface LeaseOutcome {
  readonly action: LeaseRequest["action"];
  readonly lease: Lease | undefined;
  readonly modified: number;
}

export function encodeLease(
  { action, lease, modified }: LeaseOutcome,
  { arrivedAt }: WireRequest,
): WireResponse {
  const headers = validatorHeaders(modified);
  if (action === "break") {
    headers.push("x-ms-lease-time", String(secondsUntilBroken(lease!, arrivedAt)));
  } else if (lease !== undefined) {
    headers.push("x-ms-lease-id", lease.id);
  }
  return { status: STATUS[action], headers };
}
