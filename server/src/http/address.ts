import { ServiceError } from "@rowhouse/protocol/errors";
import { type Accounts, SECONDARY } from "../auth/accounts.ts";
import type { Account } from "../wire/account.ts";

/** The account a request addresses, and the rest of the path. */
export interface Address {
  readonly account: Account;
  readonly secondary: boolean;
  /** The path below the account, percent-encoded as sent: empty, or beginning with "/". */
  readonly servicePath: string;
  readonly baseUrl: string;
}

export interface AddressRules {
  /** The label after the account in host-style names: "table", "queue" or "blob". */
  readonly serviceName: string;
  /** Whether `ACCOUNT.table.anything` names an account; if not, every request is path-style. */
  readonly hostStyle: boolean;
  readonly hasSecondary: boolean;
  readonly accounts: Pick<Accounts, "find" | "revision">;
}

/** Registered names, IPv4, bracketed IPv6, an optional port. A host that matches is safe in JSON and headers. */
const HOST = /^(?:[A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\])(?::\d{1,5})?$/;

/** What path-style requests to one account share. */
interface PathStyle {
  readonly host: string;
  readonly secure: boolean;
  /** A slash and the account, as sent. */
  readonly segment: string;
  readonly named: NamedAccount;
  readonly baseUrl: string;
  /** Of the accounts, when they were asked. */
  readonly revision: number;
}

interface NamedAccount {
  readonly account: Account;
  readonly secondary: boolean;
}

export class AddressReader {
  readonly #rules: AddressRules;
  /** Of the last request. Most requests share it, and reading it again costs a point query 0.8 µs. */
  #last: PathStyle | undefined;

  constructor(rules: AddressRules) {
    this.#rules = rules;
  }

  /**
   * Host-style (`ACCOUNT.table.HOST/…`) when the first label names one of our accounts and the second the
   * service; path-style (`HOST/ACCOUNT/…`) otherwise. In both styles, "-secondary" after the account name
   * addresses the read-only replica, where the service has one.
   * @throws ServiceError HostInformationNotPresent, InvalidUri or ResourceNotFound (no such account).
   */
  read(host: string | undefined, rawPath: string, secure: boolean): Address {
    const last = this.#last;
    if (
      last &&
      host === last.host &&
      secure === last.secure &&
      isBelow(rawPath, last.segment) &&
      last.revision === this.#rules.accounts.revision
    ) {
      return below(last, rawPath);
    }
    if (host === undefined || host === "") throw new ServiceError("HostInformationNotPresent");
    if (!HOST.test(host)) throw new ServiceError("InvalidUri");
    const authority = secure ? `https://${host}` : `http://${host}`;
    const rules = this.#rules;
    const inHost = accountInHost(host, rules);
    if (inHost) return { ...inHost, servicePath: rawPath, baseUrl: authority };

    const end = rawPath.indexOf("/", 1);
    const segment = end < 0 ? rawPath : rawPath.slice(0, end);
    const named = findNamed(segment.slice(1), rules);
    if (!named) throw new ServiceError("ResourceNotFound");
    const { revision } = rules.accounts;
    this.#last = { host, secure, segment, named, baseUrl: authority + segment, revision };
    return below(this.#last, rawPath);
  }

  isHostStyle(host: string | undefined): boolean {
    return host !== undefined && accountInHost(host, this.#rules) !== undefined;
  }
}

function isBelow(rawPath: string, segment: string): boolean {
  if (!rawPath.startsWith(segment)) return false;
  return rawPath.length === segment.length || rawPath[segment.length] === "/";
}

function below({ segment, named, baseUrl }: PathStyle, rawPath: string): Address {
  const { account, secondary } = named;
  return { account, secondary, servicePath: rawPath.slice(segment.length), baseUrl };
}

function accountInHost(sent: string, rules: AddressRules): NamedAccount | undefined {
  if (!rules.hostStyle) return undefined;
  const host = sent.toLowerCase();
  const first = host.indexOf(".");
  if (first < 0 || !host.startsWith(rules.serviceName + ".", first + 1)) return undefined;
  return findNamed(host.slice(0, first), rules);
}

function findNamed(label: string, rules: AddressRules): NamedAccount | undefined {
  const account = rules.accounts.find(label);
  if (account) return { account, secondary: false };
  if (!rules.hasSecondary || !label.endsWith(SECONDARY)) return undefined;
  const primary = rules.accounts.find(label.slice(0, -SECONDARY.length));
  return primary && { account: primary, secondary: true };
}
