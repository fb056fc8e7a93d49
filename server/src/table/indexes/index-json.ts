import { ServiceError } from "@rowhouse/protocol/errors";
import { printIndexKey } from "../../query/indexes/index-definition.ts";
import type { WireResponse } from "../../wire/operation.ts";
import type { IndexState } from "../table-value.ts";
import { type BuildProgress, secondsLeft } from "./index-build.ts";
import type { DeclaredIndex, KeptIndex } from "./index-catalog.ts";
import type { CheckPosition } from "./index-check.ts";

/** An index as the interface for programs shows it. */
export interface ShownIndex {
  readonly name: string;
  readonly table: string;
  readonly key: string;
  readonly state: IndexState;
  /** When it was declared, ISO 8601. */
  readonly declared: string;
  /** While it is built. */
  readonly progress?: {
    readonly entities: number;
    readonly entries: number;
    readonly startedAt: string;
    /** Entities there were when it began, and the time left at the pace so far; missing on PostgreSQL. */
    readonly total?: number;
    readonly secondsLeft?: number;
  };
}

export function showIndex(
  { table, index }: KeptIndex,
  progress?: BuildProgress,
  nowMs = 0,
): ShownIndex {
  return {
    name: index.name,
    table: table.name,
    key: printIndexKey(index),
    state: index.state,
    declared: new Date(index.since / 1000).toISOString(),
    ...(index.state === "building" &&
      progress && {
        progress: {
          entities: progress.entities,
          entries: progress.entries,
          startedAt: new Date(progress.startedAt).toISOString(),
          ...(progress.total !== undefined && {
            total: progress.total,
            secondsLeft: secondsLeft(progress, nowMs) ?? 0,
          }),
        },
      }),
  };
}

export function jsonResponse(status: number, value: unknown): WireResponse {
  return {
    status,
    headers: ["Content-Type", "application/json"],
    body: `${JSON.stringify(value)}\n`,
  };
}

/** The body of a declaration. @throws ServiceError InvalidInput with what is expected */
export function readDeclaration(name: string, body: Uint8Array): DeclaredIndex {
  const value = readJson(body);
  const { table, key, rate, ...others } = value;
  const [other] = Object.keys(others);
  if (other !== undefined) throw expected(`it has no member "${other}"`);
  if (typeof table !== "string") throw expected('"table" is missing');
  if (typeof key !== "string") throw expected('"key" is missing');
  if (rate !== undefined && !isCount(rate)) {
    throw expected('"rate" is not a whole number of entities per second');
  }
  return { name, table, key, ...(rate !== undefined && { rate }) };
}

function isCount(value: unknown): value is number {
  return Number.isSafeInteger(value) && (value as number) >= 0;
}

function expected(what: string): ServiceError {
  return refused(
    `A declaration is JSON such as {"table":"Employees","key":"LastName,Age:Int32 desc","rate":20000}; ${what}.`,
  );
}

/** Where a check goes on, as an earlier piece answered; an empty body is the beginning. */
export function readPosition(body: Uint8Array): CheckPosition | undefined {
  if (body.length === 0) return undefined;
  const { over, partitionKey, rowKey } = readJson(body);
  const isPlace = over === "entities" || over === "entries";
  if (!isPlace || typeof partitionKey !== "string" || typeof rowKey !== "string") {
    throw refused('The body of a check is empty, or the "next" of an earlier answer.');
  }
  return { over, partitionKey, rowKey };
}

function readJson(body: Uint8Array): Record<string, unknown> {
  let value: unknown;
  try {
    value = JSON.parse(Buffer.from(body).toString("utf8"));
  } catch (cause) {
    throw refused("The body is not JSON.", cause);
  }
  if (typeof value !== "object" || value === null || Array.isArray(value)) {
    throw refused("The body is not a JSON object.");
  }
  return value as Record<string, unknown>;
}

function refused(message: string, cause?: unknown): ServiceError {
  return new ServiceError("InvalidInput", { message, cause });
}
