/**
 * The messages one receiver is about to take, kept from the other receivers of this process while
 * its commit is under way. Whoever claims must release, whatever happens.
 */
export class Claim {
  readonly #claimed: Set<string>;
  readonly #own: string[] = [];

  /** @param claimed the ids that all receivers claim from */
  constructor(claimed: Set<string>) {
    this.#claimed = claimed;
  }

  /** False when it is claimed already. */
  add(id: Uint8Array): boolean {
    const text = latin1(id);
    if (this.#claimed.has(text)) return false;
    this.#claimed.add(text);
    this.#own.push(text);
    return true;
  }

  /** Whether it could be claimed now. */
  isFree(id: Uint8Array): boolean {
    return !this.#claimed.has(latin1(id));
  }

  release(): void {
    for (const text of this.#own) this.#claimed.delete(text);
  }
}

function latin1(bytes: Uint8Array): string {
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString("latin1");
}
