import type { Engine, Key } from "../engine/engine.ts";
import { after, copyKey } from "../engine/key-codec.ts";
import { scanToEnd } from "../engine/scan-to-end.ts";
import {
  queueText,
  type ReadyPlace,
  readReadyExpiry,
  readReadyKey,
  unexpiredRange,
  visibleRange,
} from "./message-keys.ts";
import { readPlace } from "./message-record.ts";

export interface VisibleSearch {
  readonly partition: Uint8Array;
  /** Milliseconds since 1970, like all times here. */
  readonly now: number;
  readonly max: number;
  /** Called for each visible message in turn; returns whether to take it. */
  readonly take: (place: ReadyPlace) => boolean;
}

/** A position before which no message can be received any more. */
interface Floor {
  readonly key: Key;
  /** When the last of the messages before it became visible. */
  readonly visibleAt: number;
  /** When the messages before it were last looked for, from the first on. */
  readonly foundAt: number;
}

/** The floor in use, and a later one that becomes it once it is old enough for clocks that differ. */
interface Floors {
  readonly floor: Floor;
  readonly next: Floor | undefined;
  readonly raisedAt: number;
}

/** How many expired messages are passed over before another way is tried. */
const EXPIRED_PASSED_MAX = 256;
/** How many messages are read in the order of expiry. */
const UNEXPIRED_READ_MAX = 1024;
/** A floor holds for other servers' messages while clocks differ by less than this … */
const CLOCKS_APART_MS_MAX = 5_000;
/** … and is discarded after this time, in case they differ by more. */
const FLOOR_MS_MAX = 30_000;
/** A floor is raised no more often. */
const RAISED_EACH_MS = 1_000;
const FLOORS_MAX = 1_000;

/**
 * Finds visible messages, those that became visible first at the front. Hidden messages lie behind the range
 * that is read, however many there are.
 *
 * Messages that expired unreceived lie in front of the range until the sweeper frees them: millions of them,
 * after a mass expiry or a long downtime. Three things keep the range short all the same:
 *
 * - The position where the expired messages in front end is remembered as the floor. It stays valid: messages
 *   that become visible later sort after it, and expired messages stay expired. So is the position of the first
 *   message found: a database keeps received ones as dead rows while anyone holds an older snapshot, such as a
 *   backup, and would step over all of them at each search (in one test, 3.8 ms became 9.9 in 6,000 messages).
 * - After some hundred expired messages, the search reads messages in the order of expiry, which skips all
 *   expired ones. For messages with equal times to live that is the same order.
 * - Only when hidden messages crowd the front of that order, too, are the expired ones passed over one by
 *   one. This happens once, and sets the floor.
 */
export class VisibleMessages {
  readonly #engine: Engine;
  readonly #onManyExpired: () => void;
  readonly #floors = new Map<string, Floors>();

  /** @param onManyExpired called when expired messages slow down a search */
  constructor(engine: Engine, onManyExpired: () => void) {
    this.#engine = engine;
    this.#onManyExpired = onManyExpired;
  }

  /** Returns up to `max` messages that `take` accepted. */
  async find(search: VisibleSearch): Promise<ReadyPlace[]> {
    const { max, take } = search;
    const places: ReadyPlace[] = [];
    const consider = (place: ReadyPlace): boolean => {
      if (take(place)) places.push(place);
      return places.length < max;
    };
    const isCrowded = await this.#readFront(search, EXPIRED_PASSED_MAX, consider);
    if (!isCrowded) return places;

    this.#onManyExpired();
    // Fewer than requested is a good answer; none is not.
    if (places.length === 0) await this.#readByExpiry(search, consider);
    if (places.length === 0) await this.#readFront(search, Number.POSITIVE_INFINITY, consider);
    return places.sort((a, b) => a.visibleAt - b.visibleAt || a.sequence - b.sequence);
  }

  /** Reads from the floor on. @returns whether it stopped after `passedMax` expired messages */
  async #readFront(
    { partition, now, max }: VisibleSearch,
    passedMax: number,
    consider: (place: ReadyPlace) => boolean,
  ): Promise<boolean> {
    const { start, end } = visibleRange(partition, now);
    let passed = 0;
    let passedLast: Key | undefined;
    let isInFront = true;
    const floor = this.#floorOf(partition, now);
    const foundAt = floor?.foundAt ?? now;
    await scanToEnd(
      this.#engine,
      { start: floor?.key ?? start, end },
      ({ key }) => {
        if (readReadyExpiry(key) > now) {
          if (isInFront && this.#mayRaise(partition, now)) passedLast = copyKey(key);
          isInFront = false;
          return consider(readReadyKey(key));
        }
        passed++;
        if (isInFront && passed % EXPIRED_PASSED_MAX === 0) passedLast = after(key);
        return passed < passedMax;
      },
      { entriesExpected: max },
    );
    if (passedLast) this.#raiseFloor(partition, passedLast, now, foundAt);
    return passed >= passedMax;
  }

  async #readByExpiry(
    { partition, now, max }: VisibleSearch,
    consider: (place: ReadyPlace) => boolean,
  ): Promise<void> {
    let read = 0;
    await scanToEnd(
      this.#engine,
      unexpiredRange(partition, now),
      (entry) => {
        const place = readPlace(entry);
        const goOn = place.visibleAt > now || consider(place);
        return goOn && ++read < UNEXPIRED_READ_MAX;
      },
      { entriesExpected: max },
    );
  }

  /** Undefined where none is known, or where another process may still put a message before it. */
  #floorOf(partition: Uint8Array, now: number): Floor | undefined {
    if (this.#floors.size === 0) return undefined;
    const { floor, next } = this.#floors.get(queueText(partition)) ?? {};
    const isOld = (each: Floor | undefined) =>
      each !== undefined &&
      each.visibleAt < now - CLOCKS_APART_MS_MAX &&
      Math.abs(now - each.foundAt) < FLOOR_MS_MAX;
    if (isOld(next)) return next;
    return isOld(floor) ? floor : undefined;
  }

  #mayRaise(partition: Uint8Array, now: number): boolean {
    const known = this.#floors.get(queueText(partition));
    return known === undefined || Math.abs(now - known.raisedAt) >= RAISED_EACH_MS;
  }

  #raiseFloor(partition: Uint8Array, { sort }: Key, now: number, foundAt: number): void {
    const key = { partition, sort };
    const raised = { key, visibleAt: readReadyKey(key).visibleAt, foundAt };
    const inUse = this.#floorOf(partition, now);
    // One that is not yet old enough is kept until it is: with a message each moment, the next would never be.
    const { floor, next } = this.#floors.get(queueText(partition)) ?? {};
    if (this.#floors.size >= FLOORS_MAX) this.#floors.clear();
    const isWaiting =
      next !== undefined && next !== inUse && Math.abs(now - next.foundAt) < FLOOR_MS_MAX;
    this.#floors.set(queueText(partition), {
      floor: inUse ?? floor ?? raised,
      next: isWaiting && raised.visibleAt >= now - CLOCKS_APART_MS_MAX ? next : raised,
      raisedAt: now,
    });
  }
}
