import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { decodeEntity } from "./entity-json.ts";
import { entitySize } from "./entity-size.ts";
import { ERRORS, type ErrorCode } from "./errors.ts";
import { decodeUtf8 } from "./json-string.ts";
import { LIMITS } from "./limits.ts";

const KEYS = '"PartitionKey":"p","RowKey":"r"';

describe("Property names", () => {
  it("begin with a letter or _, and continue with letters, digits and _", () => {
    check('"_":1,"a1":2,"名前":3,"é_9":4,"\\u0061b":5', [
      '"_":1',
      '"a1":2',
      '"名前":3',
      '"é_9":4',
      '"ab":5',
    ]);
    for (const name of ["", "1a", "a-b", "a b", "a.b", "😀", "a\\u0000", "a'"]) {
      refuse(`"${name}":1`, "PropertyNameInvalid");
    }
  });

  it("must be XML names too, which not all identifiers are", () => {
    for (const name of ["\u00e9", "\u216b", "a\u200d", "\u{1d49c}"]) {
      check(`"${name}":1`, [`"${name}":1`]);
    }
    for (const name of ["\u00aab", "\u00b5", "a\u00ad", "a\u200b"]) {
      refuse(`"${name}":1`, "PropertyNameInvalid");
    }
  });

  it("are at most 255 UTF-16 code units long", () => {
    for (const letter of ["n", "名"]) {
      const longest = letter.repeat(255);
      check(`"${longest}":1`, [`"${longest}":1`]);
      refuse(`"${longest}${letter}":1`, "PropertyNameTooLong");
    }
  });

  it("are not checked if the property is not stored", () => {
    check('"a-b":null', []);
  });
});

describe("Limits", () => {
  const properties = (count: number) => Array.from({ length: count }, (_, i) => `"p${i}":${i}`);

  it("allow 252 properties, nulls not counted", () => {
    const most = properties(252);
    check([...most, '"n":null', '"Timestamp":1', '"p0@odata.type":"Edm.Int32"'].join(","), most);
    refuse(properties(253).join(","), "TooManyProperties");
  });

  it("bound the number of members of a body, including nulls", () => {
    const nulls = Array.from({ length: 1022 }, (_, i) => `"n${i}":null`);
    check(nulls.join(","), []);
    refuse([...nulls, '"x":null'].join(","), "TooManyProperties");
  });

  it("allow texts of 32,768 UTF-16 code units", () => {
    for (const unit of ["x", "é", "\\n"]) {
      const longest = unit.repeat(LIMITS.stringLengthMax);
      check(`"a":"${longest}"`, [`"a":"${longest}"`]);
      refuse(`"a":"${longest}${unit}"`, "PropertyValueTooLarge");
    }
    check(`"a":"${"😀".repeat(16_384)}"`, [`"a":"${"😀".repeat(16_384)}"`]);
    refuse(`"a":"${"😀".repeat(16_384)}x"`, "PropertyValueTooLarge");
  });

  it("allow binaries of 65,536 bytes", () => {
    check(binary("a", 65_536), [stored(binary("a", 65_536))]);
    refuse(binary("a", 65_537), "PropertyValueTooLarge");
  });

  it("allow entities of 1 MiB", () => {
    const sizeOf = (last: number) => 4 + 2 * 2 + 16 * (8 + 2 * 3 + 4 + 64_000) + 8 + 2 + last + 4;
    const last = LIMITS.entityBytesMax - sizeOf(0);
    const most = Array.from({ length: 16 }, (_, i) => binary(`b${10 + i}`, 64_000)).join(",");
    const entity = decode(`{${KEYS},${most},${binary("c", last)}}`);
    assert.equal(entitySize(entity), LIMITS.entityBytesMax);
    refuse(`${most},${binary("c", last + 1)}`, "EntityTooLarge");
  });

  it("include the size of small properties", () => {
    const digits = Array.from({ length: 235 }, (_, i) => `"d${100 + i}":7`).join(",");
    const texts = Array.from({ length: 15 }, (_, i) => `"t${10 + i}":"${"x".repeat(32_768)}"`);
    const sizeOf = 4 + 2 * 2 + 235 * (8 + 2 * 4 + 4) + 15 * (8 + 2 * 3 + 2 * 32_768 + 4);
    const last = (LIMITS.entityBytesMax - sizeOf - (8 + 2 + 4)) / 2;
    const members = (length: number) => `${texts.join(",")},${digits},"t":"${"x".repeat(length)}"`;
    assert.equal(entitySize(decode(`{${KEYS},${members(last)}}`)), LIMITS.entityBytesMax);
    refuse(members(last + 1), "EntityTooLarge");
  });

  it("report the entity before the value if both are too large", () => {
    refuse(binary("a", 1_048_576), "EntityTooLarge");
  });

  function binary(name: string, bytesLength: number): string {
    return `"${name}":"${Buffer.alloc(bytesLength, 7).toString("base64")}","${name}@odata.type":"Edm.Binary"`;
  }

  function stored(property: string): string {
    const [value, type] = property.split(",");
    return `${type},${value}`;
  }
});

describe("The size of an entity", () => {
  it("follows the published formula", () => {
    const { json, properties } = decode(
      `{"PartitionKey":"pé","RowKey":"😀","s":"aé😀\\n","i":1,"l":"1","l@odata.type":"Edm.Int64","d":1.5,"b":true,` +
        '"t":"2020-01-01","t@odata.type":"Edm.DateTime","g":"c9da6455-213d-42c9-9a79-3e9149a57833",' +
        '"g@odata.type":"Edm.Guid","名":"YWJj","名@odata.type":"Edm.Binary","n":"NaN","n@odata.type":"Edm.Double"}',
    );
    const values = 2 * 5 + 4 + 4 + 8 + 8 + 1 + 8 + 16 + (3 + 4) + 8;
    assert.equal(
      entitySize({ partitionKey: "pé", rowKey: "😀", json, properties }),
      4 + 2 * (2 + 2) + 9 * (8 + 2) + values,
    );
  });
});

/** Decodes the two keys and `members`; `expected` is the stored text of each property. */
function check(members: string, expected: readonly string[]): void {
  const { json } = decode(`{${KEYS},${members}}`);
  assert.equal(decodeUtf8(json, 0, json.length), expected.map((each) => `,${each}`).join(""));
}

function refuse(members: string, code: ErrorCode): void {
  const expected = { name: "ServiceError", code, message: ERRORS[code][1] };
  assert.throws(() => decode(`{${KEYS},${members}}`), expected, members.slice(0, 200));
}

function decode(body: string) {
  return decodeEntity(new TextEncoder().encode(body));
}
