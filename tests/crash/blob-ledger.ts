import assert from "node:assert/strict";

/** Bytes that differ from those of every other piece: its number, repeated. */
export interface Piece {
  readonly number: number;
  readonly length: number;
}

/** The content and the uncommitted blocks under a name. */
export interface NameState {
  readonly content: readonly Piece[] | undefined;
  readonly uncommitted: ReadonlyMap<string, Piece>;
}

export const NOTHING: NameState = { content: undefined, uncommitted: new Map() };

/**
 * A name that only one client writes to: its last acknowledged state, and the state that a request in flight
 * may have left.
 */
export interface KnownName {
  acknowledged: NameState;
  underWay: NameState | undefined;
}

/** What a read of the name returned. */
export interface FoundName {
  readonly content: Buffer | undefined;
  /** By block id. */
  readonly uncommittedBytes: ReadonlyMap<string, number>;
}

export function bytesOf({ number, length }: Piece): Buffer {
  return Buffer.alloc(length, `${number}|`);
}

/** Checks that the state found is one of the two that are possible, and records which. */
export function judgeName(name: string, known: KnownName, found: FoundName): void {
  const state = [known.acknowledged, known.underWay].find((each) => each && isSame(each, found));
  const text = `${found.content?.length} bytes, uncommitted ${[...found.uncommittedBytes]}`;
  assert.ok(state, `${name} is neither as acknowledged nor as under way: ${text}`);
  known.acknowledged = state;
  known.underWay = undefined;
}

function isSame({ content, uncommitted }: NameState, found: FoundName): boolean {
  if ((content === undefined) !== (found.content === undefined)) return false;
  if (content && !Buffer.concat(content.map(bytesOf)).equals(found.content!)) return false;
  if (uncommitted.size !== found.uncommittedBytes.size) return false;
  return [...uncommitted].every(([id, { length }]) => found.uncommittedBytes.get(id) === length);
}

/** Many clients append to one blob. Each record is `NUMBER:LENGTH:` and its bytes. */
export class LogLedger {
  /** The offset of each acknowledged record. */
  readonly #acknowledged = new Map<number, { readonly piece: Piece; readonly offset: number }>();
  readonly #underWay = new Map<number, Piece>();

  static bytesOf(piece: Piece): Buffer {
    return Buffer.concat([Buffer.from(`${piece.number}:${piece.length}:`), bytesOf(piece)]);
  }

  begin(piece: Piece): void {
    this.#underWay.set(piece.number, piece);
  }

  acknowledge(piece: Piece, offset: number): void {
    this.#underWay.delete(piece.number);
    this.#acknowledged.set(piece.number, { piece, offset });
  }

  /** Checks that the log consists of whole records, with the acknowledged ones at the offsets that were reported. */
  judge(log: Buffer): void {
    const found = new Set<number>();
    for (let offset = 0; offset < log.length; ) {
      const head = log.toString("latin1", offset, offset + 32);
      const [, digits] = /^(\d+):\d+:/.exec(head) ?? [];
      const number = Number(digits);
      const known = this.#acknowledged.get(number);
      const piece = known?.piece ?? this.#underWay.get(number);
      assert.ok(piece, `"${head}" at ${offset} was never appended`);
      if (known) assert.equal(known.offset, offset, `record ${number} is somewhere else`);
      const expected = LogLedger.bytesOf(piece);
      assert.ok(expected.equals(log.subarray(offset, offset + expected.length)), `half ${number}`);
      assert.ok(!found.has(number), `record ${number} is there twice`);
      found.add(number);
      this.acknowledge(piece, offset);
      offset += expected.length;
    }
    for (const number of this.#acknowledged.keys()) {
      assert.ok(found.has(number), `record ${number} was acknowledged, and is lost`);
    }
    this.#underWay.clear();
  }
}
