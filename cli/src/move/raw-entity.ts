import type { DecodedEntity } from "@rowhouse/protocol/entity-json";

/**
 * An entity as it travels: the JSON object of the wire, at minimalmetadata. Passed on byte for byte, because a
 * client's parser loses what JavaScript numbers cannot tell apart: whether `1.0` is an Edm.Double.
 */
export type RawEntity = Buffer;

/**
 * The entities of a list, as slices of its body.
 * @throws Error if the body is no list
 */
export function splitList(body: Buffer): RawEntity[] {
  const begin = body.indexOf(VALUE);
  if (begin < 0) throw new Error("The endpoint answered a query with something that is no list.");
  const entities: RawEntity[] = [];
  let at = begin + VALUE.length;
  for (;;) {
    while (at < body.length && body[at] !== OPEN && body[at] !== LIST_END) at++;
    if (at >= body.length) throw new Error("The endpoint's list ends in the middle.");
    if (body[at] === LIST_END) return entities;
    const end = objectEnd(body, at);
    if (end === undefined) throw new Error("The endpoint's list ends in the middle.");
    entities.push(body.subarray(at, end));
    at = end;
  }
}

/** The position behind the object that begins at `at`; undefined if its end is not here. */
export function objectEnd(bytes: Buffer, at: number): number | undefined {
  let depth = 0;
  for (let i = at; i < bytes.length; i++) {
    switch (bytes[i]) {
      case QUOTE:
        i = stringEnd(bytes, i) ?? bytes.length;
        break;
      case OPEN:
        depth++;
        break;
      case CLOSE:
        if (--depth === 0) return i + 1;
    }
  }
  return undefined;
}

/** The position of the quote that ends the string whose first quote is at `at`; undefined if it is not here. */
export function stringEnd(bytes: Buffer, at: number): number | undefined {
  // Most strings are short, and then a call of indexOf takes longer than looking.
  for (let i = at + 1, end = Math.min(bytes.length, at + SHORT); i < end; i++) {
    const byte = bytes[i];
    if (byte === QUOTE) return i;
    if (byte === BACKSLASH) i++;
  }
  for (let i = bytes.indexOf(QUOTE, at + 1); i >= 0; i = bytes.indexOf(QUOTE, i + 1)) {
    let escapes = 0;
    while (bytes[i - 1 - escapes] === BACKSLASH) escapes++;
    if (escapes % 2 === 0) return i;
  }
  return undefined;
}

/** Without the ETag, which is in front of an entity of a list. Changes a byte of it. */
export function withoutEtag(entity: RawEntity): RawEntity {
  if (!entity.subarray(0, ETAG.length).equals(ETAG)) return entity;
  const end = stringEnd(entity, ETAG.length - 1);
  if (end === undefined || entity[end + 1] !== COMMA) return entity;
  // The comma becomes the brace, in memory that nobody else reads any more.
  entity[end + 1] = OPEN;
  return entity.subarray(end + 1);
}

/** The ETag in front of an entity of a list; undefined where the endpoint sends none. */
export function etagOf(entity: Buffer): string | undefined {
  if (!entity.subarray(0, ETAG.length).equals(ETAG)) return undefined;
  const end = stringEnd(entity, ETAG.length - 1)!;
  return String(JSON.parse(entity.toString("utf8", ETAG.length - 1, end + 1)));
}

/**
 * The same text for equal entities: the properties by name, each in its canonical form. Timestamps, which no
 * copy can keep, do not count.
 * @throws ServiceError for what is no entity
 */
export function canonicalText(entity: DecodedEntity): string {
  const { json, properties } = entity;
  const bytes = Buffer.from(json.buffer, json.byteOffset, json.byteLength);
  let start = 0;
  const texts = properties.map(({ end }) => {
    const text = bytes.toString("utf8", start, end);
    start = end;
    return text;
  });
  return texts.sort().join("");
}

const SHORT = 48;
const VALUE = Buffer.from('"value":[');
const ETAG = Buffer.from('{"odata.etag":"');
const QUOTE = 0x22;
const COMMA = 0x2c;
const BACKSLASH = 0x5c;
const LIST_END = 0x5d;
const OPEN = 0x7b;
const CLOSE = 0x7d;
