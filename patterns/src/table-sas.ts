import type { EntityDefinition } from "./entities/entity.ts";
import { assertBetween, validationFailed } from "./errors.ts";
import type { KeyDeclaration } from "./keys/key.ts";
import { isOneRow } from "./keys/key-range.ts";
import type { KeyShape, KeyValues } from "./keys/key-shape.ts";
import { assertBinds, type Fields, partitionKeyOf } from "./model/entity-rows.ts";
import type { AnyEntity, Indexes } from "./model/follower.ts";
import type { KeyEquality, RowQuery } from "./model/key-query.ts";
import { base64Of, bytesOf } from "./ports/edm.ts";
import { DAY_MS, HOUR_MS } from "./store/clock.ts";

export interface SasIssuerOptions {
  readonly account: string;
  /** The account's key, Base64. It never leaves the issuer. */
  readonly key: string;
  /** Allows tokens to travel without TLS, for development. */
  readonly allowHttp?: boolean;
  readonly clock?: { now(): number };
}

export type TablePermission = "read" | "add" | "update" | "delete";

export interface SasGrant<P, R> {
  /** One partition. */
  readonly partition: P;
  /** Rows of the partition: equality on leading segments, then at most `startsWith`. Default: all of them. */
  readonly rows?: R;
  /** Default: read only. An entity with indexes or followers can only be read. */
  readonly permissions?: readonly TablePermission[];
  /** Default: one hour. At most 7 days, unless a policy limits the token. */
  readonly ttlMs?: number;
  /** A stored access policy of the table, which defines the permissions and the expiry, and can be revoked. */
  readonly policy?: string;
  /** One IPv4 address, or two joined by a hyphen for a range. */
  readonly addresses?: string;
}

export interface TableSas {
  readonly table: string;
  /** The query part of a URL, as `AzureSASCredential` accepts it. */
  readonly token: string;
  /** Undefined when a policy defines it. */
  readonly expiresAt: Date | undefined;
  /** Inclusive, over (PartitionKey, RowKey). */
  readonly range: SasRange;
}

export interface SasRange {
  readonly partitionKey: string;
  /** Both or neither; neither means the whole partition. */
  readonly firstRowKey?: string;
  readonly lastRowKey?: string;
}

/** The rules for table tokens have not changed since this version. */
const VERSION = "2019-02-02";
const TTL_MAX_MS = 7 * DAY_MS;
/** How far the service's clock may be behind ours. */
const SKEW_MS = 5 * 60_000;
const RENEW_AT = 0.8;
const CACHED_MAX = 1000;
const LETTERS = { read: "r", add: "a", update: "u", delete: "d" } as const;

/** Issues tokens for one user's rows. It sends no request: tokens are signed here. */
export function sasIssuer(options: SasIssuerOptions): SasIssuer {
  return new SasIssuer(options);
}

export class SasIssuer {
  readonly #options: SasIssuerOptions;
  readonly #key: ReturnType<typeof crypto.subtle.importKey>;
  readonly #issued = new Map<
    string,
    { readonly sas: Promise<TableSas>; readonly untilMs: number }
  >();

  constructor(options: SasIssuerOptions) {
    this.#options = options;
    const algorithm = { name: "HMAC", hash: "SHA-256" };
    const bytes = new Uint8Array(keyBytes(options.key));
    this.#key = crypto.subtle.importKey("raw", bytes, algorithm, false, ["sign"]);
    // The key is awaited when a token is signed, and the failure surfaces there.
    this.#key.catch(() => undefined);
  }

  /**
   * A token for a range of the entity's rows and nothing else: index entries and other entities of the
   * partition are excluded. Returns the same token again for 80 % of its lifetime.
   * @throws validation-failed for a range that is not contiguous, for write access that would bypass indexes,
   * for an invalid lifetime.
   */
  sasFor<F extends Fields, P extends KeyDeclaration, R extends KeyDeclaration, I extends Indexes>(
    definition: EntityDefinition<string, F, P, R, I>,
    grant: SasGrant<KeyEquality<P>, RowQuery<R>>,
  ): Promise<TableSas> {
    return this.#sasFor(definition, undefined, { ...grant, rows: { ...(grant.rows ?? {}) } });
  }

  /** A token to read the entries of an index; `partition` and `rows` are those of the index. */
  sasForIndex<I extends Indexes>(
    definition: AnyEntity & { readonly indexes: I },
    index: keyof I & string,
    grant: Omit<SasGrant<KeyValues, KeyValues>, "permissions">,
  ): Promise<TableSas> {
    return this.#sasFor(definition, index, grant);
  }

  #sasFor(
    definition: AnyEntity,
    index: string | undefined,
    grant: SasGrant<KeyValues, KeyValues>,
  ): Promise<TableSas> {
    const { ttlMs = HOUR_MS, policy, permissions = ["read"] } = grant;
    const { table, range } = rangeOf(definition, index, grant);
    const isWrite = permissions.some((permission) => permission !== "read");
    const isFollowed =
      Object.keys(definition.indexes).length + Object.keys(definition.followers).length > 0;
    if (isWrite && isFollowed) {
      throw refuse("permissions", "direct writes would not update its indexes and followers");
    }
    if (policy === undefined) assertBetween("The token", { ttlMs }, 1000, TTL_MAX_MS);
    const unknown = permissions.find((permission) => !Object.hasOwn(LETTERS, permission));
    if (unknown !== undefined) throw refuse("permissions", `there is no "${unknown}"`);
    if (permissions.length === 0) throw refuse("permissions", "at least one is needed");
    if (policy !== undefined && (grant.permissions ?? grant.ttlMs) !== undefined) {
      throw refuse("policy", "the policy sets the permissions and the expiry");
    }
    const now = (this.#options.clock ?? Date).now();
    const id = JSON.stringify([
      table,
      range,
      [...permissions].sort(),
      ttlMs,
      policy,
      grant.addresses,
    ]);
    const known = this.#issued.get(id);
    if (known && now < known.untilMs) return known.sas;
    const sas = this.#issue(table, range, { ...grant, permissions, ttlMs }, now);
    this.#issued.delete(id);
    this.#issued.set(id, { sas, untilMs: now + ttlMs * RENEW_AT });
    if (this.#issued.size > CACHED_MAX) this.#issued.delete(this.#issued.keys().next().value ?? id);
    return sas;
  }

  async #issue(
    table: string,
    range: SasRange,
    grant: Required<Pick<SasGrant<unknown, unknown>, "permissions" | "ttlMs">> &
      Pick<SasGrant<unknown, unknown>, "policy" | "addresses">,
    now: number,
  ): Promise<TableSas> {
    const { account, allowHttp = false } = this.#options;
    const { policy, addresses } = grant;
    const expiresAt = policy === undefined ? new Date(now + grant.ttlMs) : undefined;
    const letters = Object.entries(LETTERS).flatMap(([permission, letter]) =>
      grant.permissions.some((granted) => granted === permission) ? letter : [],
    );
    const parameters = {
      sv: VERSION,
      tn: table,
      sp: expiresAt && letters.join(""),
      st: expiresAt && seconds(new Date(now - SKEW_MS)),
      se: expiresAt && seconds(expiresAt),
      si: policy,
      sip: addresses,
      spr: allowHttp ? "https,http" : "https",
      spk: range.partitionKey,
      srk: range.firstRowKey,
      epk: range.partitionKey,
      erk: range.lastRowKey,
    };
    const { sv, sp, st, se, si, sip, spr, spk, srk, epk, erk } = parameters;
    const resource = `/table/${account}/${table.toLowerCase()}`;
    const signed = [sp, st, se, resource, si, sip, spr, sv, spk, srk, epk, erk].join("\n");
    const bytes = new TextEncoder().encode(signed);
    const signature = await crypto.subtle.sign("HMAC", await this.#key, bytes);
    const pairs = Object.entries({ ...parameters, sig: base64Of(new Uint8Array(signature)) });
    const token = pairs
      .flatMap(([name, value]) =>
        value === undefined ? [] : `${name}=${encodeURIComponent(value)}`,
      )
      .join("&");
    return { table, token, expiresAt, range };
  }
}

function rangeOf(
  definition: AnyEntity,
  index: string | undefined,
  { partition, rows = {} }: SasGrant<KeyValues, KeyValues>,
): { table: string; range: SasRange } {
  const place =
    index === undefined
      ? { ...definition.rows, table: definition.table }
      : definition.indexes[index]?.place(definition);
  if (!place) throw refuse("index", `${definition.name}.${index} has no entries`);
  assertBinds(rows, place.row);
  const partitionKey = partitionKeyOf(place.partition, partition);
  return { table: place.table, range: { partitionKey, ...rowsOf(place.row, rows) } };
}

/** Inclusive at both ends, as the service defines it. */
function rowsOf(shape: KeyShape, rows: KeyValues): Omit<SasRange, "partitionKey"> {
  for (const value of Object.values(rows)) {
    const bounds = typeof value === "object" && value !== null ? Object.keys(value) : [];
    if (bounds.some((name) => name !== "startsWith")) {
      throw refuse("rows", "a token's range is a prefix: equality, then startsWith");
    }
  }
  const range = shape.rangeOf(rows);
  const { from } = range;
  if (from === undefined) return {};
  if (isOneRow(range)) return { firstRowKey: from, lastRowKey: from };
  // Keys go on after the prefix with a character below `~` or an escape, `~0…`. The bound `~~` would also admit
  // an escape led by the prefix's own last character: `a.~~` is the text `a/`.
  return { firstRowKey: from, lastRowKey: `${from}~1` };
}

function keyBytes(key: string): Uint8Array {
  try {
    return bytesOf(key);
  } catch {
    throw refuse("key", "it is not a Base64 account key");
  }
}

function seconds(date: Date): string {
  return `${date.toISOString().slice(0, 19)}Z`;
}

function refuse(path: string, message: string): Error {
  return validationFailed("The token", path, message);
}
