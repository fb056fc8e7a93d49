import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { ERROR_TEXTS, ServiceError } from "./errors.ts";
import { scanNested, scanNumber, scanString, skipWhiteSpace } from "./json-scanner.ts";
import { LIMITS } from "./limits.ts";

describe("An object or array", () => {
  const nested = (depth: number) =>
    Buffer.from(`${'[{"a":'.repeat(depth / 2)}1${"}]".repeat(depth / 2)}`);
  const scan = (bytes: Buffer) =>
    scanNested(bytes, new DataView(bytes.buffer, bytes.byteOffset, bytes.length), 0);

  it("may nest as deep as the limit", () => {
    const bytes = nested(LIMITS.jsonDepthMax);
    assert.equal(scan(bytes), bytes.length);
  });

  it("is refused where it nests deeper, and not read further", () => {
    // Behind the limit there is no JSON.
    for (const bytes of [nested(LIMITS.jsonDepthMax + 2), Buffer.from("[".repeat(4 << 20))]) {
      assert.throws(
        () => scan(bytes),
        new ServiceError("InvalidInput", { message: ERROR_TEXTS.unprocessableBody }),
      );
    }
  });
});

describe("A string", () => {
  it("ends where JSON.parse ends it, for any byte at any position", () => {
    // Bytes are skipped four at a time, so each byte is tried at every position in a word.
    for (let byte = 0; byte < 256; byte++) {
      for (let place = 0; place < 9; place++) {
        const bytes = Buffer.from('abcdefghijkl\\n" ');
        bytes[place] = byte;
        assert.equal(endOf(bytes), expectedEnd(bytes), `byte ${byte} at ${place}`);
      }
    }
  });

  it("may contain any character", () => {
    for (const character of ["\u0080", "߿", "ࠀ", "퟿", "", "\uffff", "😀", "\u{10ffff}", "\u007f"]) {
      const bytes = Buffer.from(`${character}x${character}"`);
      assert.equal(endOf(bytes), bytes.length - 1);
    }
  });

  it("is well-formed UTF-8 or refused, for any sequence of bytes", () => {
    const decoder = new TextDecoder("utf-8", { fatal: true });
    const edges = [0x7f, 0x80, 0x8f, 0x90, 0x9f, 0xa0, 0xbf, 0xc0];
    const trails = [0x41, 0x7f, 0x80, 0xbf, 0xc0];
    for (let lead = 0x80; lead < 256; lead++) {
      for (const second of edges) {
        for (const third of trails) {
          for (const fourth of trails) {
            const bytes = Buffer.from([lead, second, third, fourth, 0x22]);
            let end: number | undefined = bytes.length - 1;
            try {
              decoder.decode(bytes);
            } catch {
              end = undefined;
            }
            assert.equal(endOf(bytes), end, bytes.toString("hex"));
          }
        }
      }
    }
  });

  it("may contain every escape that JSON has, and no other", () => {
    for (let code = 0; code < 128; code++) {
      const bytes = Buffer.from(`\\${String.fromCharCode(code)}00fF"`);
      assert.equal(endOf(bytes), expectedEnd(bytes), `\\ and ${code}`);
    }
    assert.equal(endOf(Buffer.from('\\u00g0"')), undefined);
  });

  it("must end", () => {
    for (const text of ["", "a", "abcdefgh", "\\", '\\"', "\\u", "\\u12", "é".slice(0, 1)]) {
      assert.equal(endOf(Buffer.from(text)), undefined, text);
    }
    assert.equal(endOf(Buffer.from("é").subarray(0, 1)), undefined);
    assert.equal(endOf(Buffer.from("😀").subarray(0, 3)), undefined);
  });

  /** Index of the closing quote; undefined if there is no string. */
  function endOf(bytes: Buffer): number | undefined {
    return attempt(() => {
      const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.length);
      const end = scanString(bytes, view, 0);
      assert.equal(end < 0, bytes.subarray(0, end < 0 ? ~end : end).includes("\\"));
      return end < 0 ? ~end : end;
    });
  }

  function expectedEnd(bytes: Buffer): number | undefined {
    // No byte of 0x80 or more is a character on its own.
    if (bytes.some((byte) => byte >= 0x80)) return undefined;
    for (let at = 0; at < bytes.length; at++) {
      if (bytes[at] !== 0x22) continue;
      try {
        JSON.parse(`"${bytes.toString("latin1", 0, at + 1)}`);
        return at;
      } catch {
        // It may be an escaped quote.
      }
    }
    return undefined;
  }
});

describe("A number", () => {
  it("ends where its grammar ends, and is recognized as an integer or not", () => {
    for (const [text, end, isInteger] of [
      ["0,", 1, true],
      ["-0}", 2, true],
      ["1234567890", 10, true],
      ["1.5]", 3, false],
      ["-0.0e+10 ", 8, false],
      ["1E5,", 3, false],
    ] as const) {
      const found = scanNumber(Buffer.from(text), 0);
      assert.deepEqual([found < 0 ? ~found : found, found >= 0], [end, isInteger], text);
    }
  });

  it("is refused in any other form", () => {
    for (const text of ["", "-", "+1", ".5", "01", "-01", "1.", "1.e5", "1e", "1e+", "x"]) {
      assert.equal(
        attempt(() => scanNumber(Buffer.from(text), 0)),
        undefined,
        text,
      );
    }
  });
});

it("Only JSON's white space is skipped", () => {
  assert.equal(skipWhiteSpace(Buffer.from(" \t\r\nx"), 0), 4);
  assert.equal(skipWhiteSpace(Buffer.from("\u00a0"), 0), 0);
  assert.equal(skipWhiteSpace(Buffer.from("  "), 1), 2);
});

function attempt(scan: () => number): number | undefined {
  try {
    return scan();
  } catch (error) {
    assert.ok(error instanceof ServiceError && error.message === ERROR_TEXTS.unprocessableBody);
    return undefined;
  }
}
