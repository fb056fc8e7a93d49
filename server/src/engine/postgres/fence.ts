/** A server's place in the history of its database. */
export interface Lineage {
  /** All copies of one database have the same. */
  readonly systemId: string;
  /** One more with each failover. */
  readonly timeline: number;
  /** Nodes of a cluster are databases of their own. */
  readonly isClusterNode: boolean;
}

/**
 * Keeps a front end from a former primary. After a failover it may come back and accept writes, which the database has
 * then in no other place, and answer reads from before. It is on an older timeline than the new primary, so the
 * highest timeline that any server has shown is remembered. The database cannot remember it for us: the former primary
 * would ask its own memory.
 */
export class Fence {
  /** By system identifier. */
  readonly #timelines = new Map<string, number>();

  /** Whether the server is the first to show this timeline, after others: sessions on older ones must end. */
  see({ systemId, timeline, isClusterNode }: Lineage): boolean {
    const known = this.#timelines.get(systemId);
    if (known !== undefined && known >= timeline) return false;
    if (known === undefined && this.#timelines.size > 0 && !isClusterNode) return false;
    this.#timelines.set(systemId, timeline);
    return known !== undefined;
  }

  /** Why the server must not be used; undefined if it may. */
  refusal(host: string, { systemId, timeline, isClusterNode }: Lineage): string | undefined {
    const known = this.#timelines.get(systemId);
    if (known !== undefined && timeline < known) {
      return `${host} is a former primary: it is on timeline ${timeline}, and the database has gone on to ${known}. Make it a standby of the new primary`;
    }
    const [first] = this.#timelines.keys();
    if (known === undefined && first !== undefined && !isClusterNode) {
      return `${host} has another database: its system identifier is ${systemId}, not ${first}. Correct the engine's URL`;
    }
    return undefined;
  }
}
