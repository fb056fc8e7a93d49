import type { Engine, Key } from "../engine/engine.ts";
import { after } from "../engine/key-codec.ts";
import { scanToEnd } from "../engine/scan-to-end.ts";
import {
  type ReadyPlace,
  readReadyExpiry,
  readReadyKey,
  unexpiredRange,
  visibleRange,
} from "./message-keys.ts";
import { readPlace } from "./message-record.ts";

export interface VisibleSearch {
  readonly engine: Engine;
  readonly partition: Uint8Array;
  readonly now: number;
  readonly max: number;
  /** Asked for each visible message in turn; answers whether to take it. */
  readonly take: (place: ReadyPlace) => boolean;
}

export interface VisibleFound {
  readonly places: ReadyPlace[];
  /** Whether so many expired messages stood in front that the sweeper should know. */
  readonly manyExpired: boolean;
}

/** So many expired messages are passed over before the other order is tried. */
const EXPIRED_PASSED_MAX = 256;
/** So many messages are looked at in the other order. */
const UNEXPIRED_READ_MAX = 1024;

/**
 * Up to `max` visible messages, those that became visible first in front. Hidden messages are
 * behind the range that is read, however many there are.
 *
 * Messages that expired unreceived are in front of it until the sweeper has been there. After a
 * mass expiry they would make the range long, so after some hundred of them messages are taken in
 * the order of expiry, where none of the expired stands: for messages of equal lives that is the
 * same order. Only when hidden messages crowd the front of that order too are the expired ones
 * passed over one by one.
 */
export async function findVisible(search: VisibleSearch): Promise<VisibleFound> {
  const { engine, partition, now, max, take } = search;
  const places: ReadyPlace[] = [];
  const consider = (place: ReadyPlace): boolean => {
    if (take(place)) places.push(place);
    return places.length < max;
  };

  const range = visibleRange(partition, now);
  const crowd: { passed: number; end?: Key } = { passed: 0 };
  await scanToEnd(
    engine,
    range,
    ({ key }) => {
      if (readReadyExpiry(key) > now) return consider(readReadyKey(key));
      if (++crowd.passed < EXPIRED_PASSED_MAX) return true;
      crowd.end = { partition, sort: after(key).sort };
      return false;
    },
    { entriesExpected: max },
  );
  if (crowd.end === undefined) return { places, manyExpired: false };

  // Fewer than asked for are as good an answer as any; none is not.
  if (places.length === 0) await considerByExpiry(search, consider);
  if (places.length === 0) {
    await scanToEnd(engine, { start: crowd.end, end: range.end }, ({ key }) =>
      readReadyExpiry(key) > now ? consider(readReadyKey(key)) : true,
    );
  }
  places.sort((a, b) => a.visibleAt - b.visibleAt || a.sequence - b.sequence);
  return { places, manyExpired: true };
}

async function considerByExpiry(
  { engine, partition, now, max }: VisibleSearch,
  consider: (place: ReadyPlace) => boolean,
): Promise<void> {
  let read = 0;
  await scanToEnd(
    engine,
    unexpiredRange(partition, now),
    (entry) => {
      const place = readPlace(entry);
      const goOn = place.visibleAt > now || consider(place);
      return goOn && ++read < UNEXPIRED_READ_MAX;
    },
    { entriesExpected: max },
  );
}
