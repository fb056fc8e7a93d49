import assert from "node:assert/strict";
import { it } from "node:test";
import fc from "fast-check";
import { printDateTime, ticksOfMicros } from "./date-time.ts";
import { ServiceError } from "./errors.ts";
import { type IfMatch, parseIfMatch } from "./etag.ts";

const MICROS = Date.UTC(2017, 7, 30, 13, 20, 33) * 1000 + 413_914;

it("If-Match: * matches any entity", () => {
  assert.equal(parseIfMatch("*"), "*");
});

it("ETags are compared as instants, however they are escaped and padded", () => {
  for (const tag of [
    "W/\"datetime'2017-08-30T13%3A20%3A33.413914Z'\"",
    "W/\"datetime'2017-08-30T13%3a20%3a33.413914Z'\"",
    "W/\"datetime'2017-08-30T13:20:33.413914Z'\"",
    "W/\"datetime'2017-08-30T13%3A20%3A33.4139140Z'\"",
    'W/"datetime%272017-08-30T13%3A20%3A33.413914Z%27"',
    " W/\"datetime'2017-08-30T13%3A20%3A33.413914Z'\" ",
  ]) {
    assert.equal(matches(tag, MICROS), true, tag);
    assert.equal(matches(tag, MICROS + 1), false, tag);
  }
});

it("Any weak ETag is accepted, even one that can match nothing", () => {
  for (const tag of [
    "W/\"datetime'2012-06-15T22%3A51%3A44.9662825Z'\"",
    "W/\"datetime''\"",
    "W/\"datetime'%'\"",
    'W/"0x8D3"',
    'w/"0x8D3"',
    'W/""',
  ]) {
    assert.equal(matches(tag, MICROS), false, tag);
  }
});

it("Anything but one weak ETag is refused, with its text in the message", () => {
  for (const tag of ['"abc"', "abc", "", 'W/"a", W/"b"', "W/a", "W/\"datetime'x'"]) {
    assert.throws(
      () => parseIfMatch(tag),
      new ServiceError("InvalidInput", {
        message: `The etag value '${tag}' specified in one of the request headers is not valid. Please make sure only one etag value is specified and is valid.`,
      }),
    );
  }
});

it("An ETag matches exactly one Timestamp", () => {
  fc.assert(
    fc.property(
      fc.integer({ min: 0, max: 9e15 }),
      fc.integer({ min: 1, max: 1e6 }),
      (micros, d) => {
        const tag = `W/"datetime'${printDateTime(ticksOfMicros(micros))}'"`;
        assert.equal(matches(tag, micros), true);
        assert.equal(matches(tag, micros + d), false);
      },
    ),
  );
});

it("Any text is parsed or refused with a ServiceError", () => {
  fc.assert(
    fc.property(fc.string({ unit: "binary" }), (text) => {
      for (const tag of [text, `W/"${text}"`, `W/"datetime'${text}'"`]) {
        try {
          const condition = parseIfMatch(tag);
          if (condition !== "*") condition.matches(MICROS);
        } catch (error) {
          assert.ok(error instanceof ServiceError);
        }
      }
    }),
  );
});

function matches(tag: string, micros: number): boolean {
  const condition: IfMatch = parseIfMatch(tag);
  return condition === "*" || condition.matches(micros);
}
