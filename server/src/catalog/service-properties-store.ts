import { type Awaitable, whenReady } from "../awaitable.ts";
import type { Clock } from "../clock.ts";
import { Contention, LOST } from "../engine/contention.ts";
import type { Engine, Entry, Key } from "../engine/engine.ts";
import type { CorsRule } from "../xml/cors-rules.ts";
import type { DocumentRules } from "../xml/document-rules.ts";
import {
  decodeServiceProperties,
  defaultServiceProperties,
  encodeServiceProperties,
  type ServiceProperties,
  type ServicePropertiesChange,
} from "../xml/service-properties.ts";
import { accountIdOf, accountPartition } from "./account-ids.ts";
import type { KeySpace } from "./key-spaces.ts";

const SORT = Uint8Array.of(0x04);

/**
 * How long another server's change may go unnoticed. Every GET needs the CORS rules, and the cloud takes up
 * to half a minute; this server's own changes apply immediately.
 */
const TRUSTED_MS = 1_000;

interface Cached {
  readonly properties: ServiceProperties;
  /** Milliseconds since 1970. */
  readonly readAt: number;
  /** The version of their entry; 0 if they were never set. */
  readonly version: number;
}

/** The properties of one service, account by account; the defaults until they are set. */
export class ServicePropertiesStore {
  readonly #engine: Engine;
  readonly #clock: Clock;
  readonly #contention: Contention;
  readonly #space: KeySpace;
  readonly #accountIds: ReadonlyMap<string, number>;
  readonly #rules: DocumentRules;
  readonly #cache = new Map<string, Cached>();

  constructor(options: {
    readonly engine: Engine;
    readonly clock: Clock;
    readonly space: KeySpace;
    readonly accountIds: ReadonlyMap<string, number>;
    readonly rules: DocumentRules;
  }) {
    this.#engine = options.engine;
    this.#clock = options.clock;
    this.#contention = new Contention(options.clock);
    this.#space = options.space;
    this.#accountIds = options.accountIds;
    this.#rules = options.rules;
  }

  /**
   * The properties, which another server may have changed a moment ago.
   * @param now milliseconds since 1970; the arrival time of the request suffices
   */
  get(account: string, now: number): Awaitable<ServiceProperties> {
    const cached = this.#cache.get(account);
    if (cached && Math.abs(now - cached.readAt) < TRUSTED_MS) return cached.properties;
    return this.read(account);
  }

  /** The properties as they are now. */
  read(account: string): Awaitable<ServiceProperties> {
    return whenReady(this.#engine.get([this.#key(account)]), ([entry]) =>
      this.#keep(account, entry),
    );
  }

  corsRules(account: string, now: number): Awaitable<readonly CorsRule[]> {
    return whenReady(this.get(account, now), ({ cors }) => cors);
  }

  /** Reads the properties of some accounts, so that `chosen` knows them. */
  async remember(accounts: readonly string[]): Promise<void> {
    const entries = await this.#engine.get(accounts.map((account) => this.#key(account)));
    for (const [i, account] of accounts.entries()) this.#keep(account, entries[i]);
  }

  #keep(account: string, entry: Entry | undefined): ServiceProperties {
    return this.#remember(account, this.#decode(entry), entry?.version ?? 0);
  }

  /** Returns the newest version known: a read that began before a change may be answered after it. */
  #remember(account: string, properties: ServiceProperties, version: number): ServiceProperties {
    const known = this.#cache.get(account);
    if (known && known.version > version) return known.properties;
    this.#cache.set(account, { properties, readAt: this.#clock.now(), version });
    return properties;
  }

  /** The properties that were set, as last read; undefined if none were set, or none were read yet. */
  chosen(account: string): ServiceProperties | undefined {
    const cached = this.#cache.get(account);
    return cached && cached.version > 0 ? cached.properties : undefined;
  }

  /** Replaces the groups named in `change`; of two changes at once both take effect. */
  async change(account: string, change: ServicePropertiesChange): Promise<void> {
    const key = this.#key(account);
    await this.#contention.settle(account, async () => {
      const [entry] = await this.#engine.get([key]);
      const properties = { ...this.#decode(entry), ...change };
      const result = await this.#engine.commit({
        version: this.#engine.nextVersion(),
        checks: [{ key, expected: entry?.version ?? "absent" }],
        puts: [{ key, value: encodeServiceProperties(properties) }],
        deletes: [],
      });
      return result.committed ? this.#remember(account, properties, result.versions[0]!) : LOST;
    });
  }

  /** Back to what an account has that never set any. */
  async reset(account: string): Promise<void> {
    const deletes = [this.#key(account)];
    const version = this.#engine.nextVersion();
    await this.#engine.commit({ version, checks: [], puts: [], deletes });
    this.#cache.delete(account);
  }

  #decode(entry: Entry | undefined): ServiceProperties {
    return entry ? decodeServiceProperties(entry.value) : defaultServiceProperties(this.#rules);
  }

  #key(account: string): Key {
    const partition = accountPartition(this.#space, accountIdOf(this.#accountIds, account));
    return { partition, sort: SORT };
  }
}
