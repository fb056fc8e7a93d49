import assert from "node:assert/strict";
import { describe, it } from "node:test";
import fc from "fast-check";
import { decodeEntity, decodeTableName } from "./entity-json.ts";
import { ERROR_TEXTS, ERRORS, type ErrorCode, ServiceError } from "./errors.ts";
import { decodeUtf8 } from "./json-string.ts";
import { LIMITS } from "./limits.ts";

const KEYS = '"PartitionKey":"p","RowKey":"r"';

describe("A property's type", () => {
  it("follows from its JSON form without an annotation", () => {
    check('"a":"2020-01-01T00:00:00Z","b":1,"c":1.0,"d":true,"e":-5,"f":1e3,"g":false', [
      '"a":"2020-01-01T00:00:00Z"',
      '"b":1',
      '"c":1.0',
      '"d":true',
      '"e":-5',
      '"f":1000.0',
      '"g":false',
    ]);
  });

  it("is the annotated one, before or after the property", () => {
    const expected = ['"a@odata.type":"Edm.Int64","a":"39"'];
    check('"a@odata.type":"Edm.Int64","a":"39"', expected);
    check('"a":"39","a@odata.type":"Edm.Int64"', expected);
    check('"a":"39","b":true,"a@odata.type":"Edm.Int64"', [...expected, '"b":true']);
  });

  it("is not stored if JSON implies it", () => {
    check('"a":4,"a@odata.type":"Edm.Double"', ['"a":4.0']);
    check('"a":"1","a@odata.type":"Edm.Double"', ['"a":1.0']);
    check('"a":"x","a@odata.type":"Edm.String"', ['"a":"x"']);
    check('"a":"7","a@odata.type":"Edm.Int32"', ['"a":7']);
    check('"a":"true","a@odata.type":"Edm.Boolean"', ['"a":true']);
    check('"a":false,"a@odata.type":"Edm.Boolean"', ['"a":false']);
  });

  it("is refused for a value of another type", () => {
    for (const property of [
      '"a":1,"a@odata.type":"Edm.String"',
      '"a":"","a@odata.type":"Edm.Int32"',
      '"a":1.0,"a@odata.type":"Edm.Int32"',
      '"a":true,"a@odata.type":"Edm.Int32"',
      '"a":"2147483648","a@odata.type":"Edm.Int32"',
      '"a":"1.0","a@odata.type":"Edm.Int64"',
      '"a":"x","a@odata.type":"Edm.Double"',
      '"a":"","a@odata.type":"Edm.Double"',
      '"a":"nan","a@odata.type":"Edm.Double"',
      '"a":true,"a@odata.type":"Edm.Double"',
      '"a":1,"a@odata.type":"Edm.Boolean"',
      '"a":"yes","a@odata.type":"Edm.Boolean"',
      '"a":"","a@odata.type":"Edm.DateTime"',
      '"a":"2012-02-30","a@odata.type":"Edm.DateTime"',
      '"a":0,"a@odata.type":"Edm.DateTime"',
      '"a":"c9da6455213d42c99a793e9149a57833","a@odata.type":"Edm.Guid"',
      '"a":"g9da6455-213d-42c9-9a79-3e9149a57833","a@odata.type":"Edm.Guid"',
      '"a":"c9da6455-213d-42c9-9a79+3e9149a57833","a@odata.type":"Edm.Guid"',
      '"a":"YQ","a@odata.type":"Edm.Binary"',
      '"a":"YQ=","a@odata.type":"Edm.Binary"',
      '"a":"Y-==","a@odata.type":"Edm.Binary"',
      '"a":"Y===","a@odata.type":"Edm.Binary"',
      '"a":"====","a@odata.type":"Edm.Binary"',
      '"a":"YWJ=YWJj","a@odata.type":"Edm.Binary"',
      '"a":"x","a@odata.type":"Edm.Decimal"',
      '"a":"x","a@odata.type":"edm.string"',
      '"a":"x","a@odata.type":5',
      '"a":"x","a@odata.type":null',
    ]) {
      refuse(property, "InvalidInput");
    }
  });
});

describe("A number", () => {
  it("must fit an Edm.Int32 if it has no point and no annotation", () => {
    check('"a":2147483647,"b":-2147483648', ['"a":2147483647', '"b":-2147483648']);
    for (const number of ["2147483648", "-2147483649", "10000000000"]) {
      refuse(`"a":${number}`, "InvalidInput");
    }
  });

  it("must fit an Edm.Int64 if it is annotated as one", () => {
    check('"a":"9223372036854775807","a@odata.type":"Edm.Int64"', [
      '"a@odata.type":"Edm.Int64","a":"9223372036854775807"',
    ]);
    check('"a":-9223372036854775808,"a@odata.type":"Edm.Int64"', [
      '"a@odata.type":"Edm.Int64","a":"-9223372036854775808"',
    ]);
    for (const number of [
      "9223372036854775808",
      "-9223372036854775809",
      "1e3",
      "99999999999999999999",
    ]) {
      refuse(`"a":"${number}","a@odata.type":"Edm.Int64"`, "InvalidInput");
    }
  });

  it("is stored in one form, however it was sent", () => {
    check('"a":-0,"b":-0.0,"c":1e24,"d":1.2300,"e":0.00001,"f":-10.0E-1', [
      '"a":0',
      '"b":0.0',
      '"c":1E+24',
      '"d":1.23',
      '"e":1E-05',
      '"f":-1.0',
    ]);
    check('"a":"-0039","a@odata.type":"Edm.Int64","b":"-000","b@odata.type":"Edm.Int64"', [
      '"a@odata.type":"Edm.Int64","a":"-39"',
      '"b@odata.type":"Edm.Int64","b":"0"',
    ]);
    check('"d":"1.23456789012346e+24","d@odata.type":"Edm.Double"', ['"d":1.23456789012346E+24']);
  });

  it("must not overflow an Edm.Double", () => {
    check('"a":1e308', ['"a":1E+308']);
    refuse('"a":1e999', "InvalidInput");
    refuse('"a":"-1e999","a@odata.type":"Edm.Double"', "InvalidInput");
  });

  it("may be NaN or infinite, as an annotated text", () => {
    for (const word of ["NaN", "Infinity", "-Infinity"]) {
      check(`"x":"${word}","x@odata.type":"Edm.Double"`, [
        `"x@odata.type":"Edm.Double","x":"${word}"`,
      ]);
    }
    check('"x":"NaN"', ['"x":"NaN"']);
  });
});

describe("A value", () => {
  it("is stored in its canonical form", () => {
    check('"a":"C9DA6455-213D-42C9-9A79-3E9149A57833","a@odata.type":"Edm.Guid"', [
      '"a@odata.type":"Edm.Guid","a":"c9da6455-213d-42c9-9a79-3e9149a57833"',
    ]);
    check('"a":"2012-11-10T03:04:05.200Z","a@odata.type":"Edm.DateTime"', [
      '"a@odata.type":"Edm.DateTime","a":"2012-11-10T03:04:05.2Z"',
    ]);
    check('"a":"2012-11-10T03:04:05+02:00","a@odata.type":"Edm.DateTime"', [
      '"a@odata.type":"Edm.DateTime","a":"2012-11-10T01:04:05Z"',
    ]);
    check(
      '"a":"YR==","b":"","c":"YWJjZA==","d":"\\/+\\u002b\\/","a@odata.type":"Edm.Binary","b@odata.type":"Edm.Binary","c@odata.type":"Edm.Binary","d@odata.type":"Edm.Binary"',
      [
        '"a@odata.type":"Edm.Binary","a":"YQ=="',
        '"b@odata.type":"Edm.Binary","b":""',
        '"c@odata.type":"Edm.Binary","c":"YWJjZA=="',
        '"d@odata.type":"Edm.Binary","d":"/++/"',
      ],
    );
  });

  it("is stored without unnecessary escapes, and with the necessary ones", () => {
    check('"a":"\\/\\u00e9\\u0041\\ud83d\\ude00\\"\\\\\\n\\u0007\\ud800","b":"é😀"', [
      '"a":"/éA😀\\"\\\\\\n\\u0007\\ud800"',
      '"b":"é😀"',
    ]);
  });

  it("is not stored if it is null", () => {
    check('"n":null,"a":1,"m@odata.type":"Edm.Int64","m":null', ['"a":1']);
  });

  it("that is null or missing may have any type annotation, even an unknown one", () => {
    check('"m@odata.type":"Edm.Foo","m":null,"a":1,"n@odata.type":"Edm.Foo"', ['"a":1']);
    refuse('"m@odata.type":"Edm.Foo","m":"x"', "InvalidInput");
  });

  it("must be a string, number or boolean", () => {
    for (const value of [
      "{}",
      "[]",
      '{"a":1}',
      "[1]",
      "undefined",
      "'a'",
      "NaN",
      "+1",
      ".5",
      "01",
    ]) {
      refuse(`"a":${value}`, "InvalidInput");
    }
  });

  it("before 1601 is refused by name", () => {
    refuse(
      '"Born":"0001-01-01T00:00:00Z","Born@odata.type":"Edm.DateTime"',
      "OutOfRangeInput",
      "The 'Born' parameter of value '01/01/0001 00:00:00' is out of range.",
    );
    refuse(
      '"Born":"1600-12-31T23:59:59.9999999Z","Born@odata.type":"Edm.DateTime"',
      "OutOfRangeInput",
      "The 'Born' parameter of value '12/31/1600 23:59:59' is out of range.",
    );
    check('"a":"1601-01-01","a@odata.type":"Edm.DateTime"', [
      '"a@odata.type":"Edm.DateTime","a":"1601-01-01T00:00:00Z"',
    ]);
  });
});

describe("Timestamp and control information", () => {
  it("are dropped", () => {
    check(
      '"odata.etag":"W/\\"x\\"","odata.metadata":"u","odata.type":"a.t","odata.id":1,"Timestamp":"x",' +
        '"Timestamp@odata.type":"Edm.DateTime","a":1,"b@odata.type":"Edm.Int64","a@odata.mediaEditLink":"u"',
      ['"a":1'],
    );
    check('"Timestamp":null', []);
  });

  it("are dropped whatever their values, even objects and arrays", () => {
    const names = ["Timestamp", "Timestamp@odata.type", "odata.etag", "odata.x", "a@odata.y"];
    const deep = `${"[".repeat(90)}${"]".repeat(90)}`;
    for (const name of names) {
      for (const value of ["{}", "[ ]", '{"a":{"\\u0061":[1,{}]} , "b":[]}', '["]",{}]', deep]) {
        check(`"a":1,"${name}" : ${value} ,"b":2`, ['"a":1', '"b":2']);
      }
    }
    const values = fc.tuple(fc.constantFrom(...names), fc.jsonValue(), fc.constantFrom(0, 1));
    fc.assert(
      fc.property(values, ([name, value, spaces]) => {
        check(`"${name}":${JSON.stringify(value, null, spaces)},"a":1`, ['"a":1']);
      }),
    );
  });

  it("must be valid JSON, and must not be repeated", () => {
    for (const value of [
      "{",
      "[",
      "{]",
      "[}",
      "[1,]",
      "[,1]",
      "[1 2]",
      '{"a"}',
      '{"a":1,}',
      "{a:1}",
      "{1:1}",
      '{"a":}',
      '{"\n":1}',
      "[nul]",
      "[]]",
      "{}{}",
    ]) {
      for (const name of ["Timestamp", "odata.etag"]) refuse(`"${name}":${value}`, "InvalidInput");
    }
    refuse('"Timestamp":{},"Timestamp":[]', "DuplicatePropertiesSpecified");
    refuse('"timestamp":{}', "InvalidInput");
  });

  it("are recognized by exact case only", () => {
    check('"timestamp":1,"etag":"x","partitionkey":2', [
      '"timestamp":1',
      '"etag":"x"',
      '"partitionkey":2',
    ]);
  });
});

describe("The keys", () => {
  it("may be empty", () => {
    const { partitionKey, rowKey } = decode('{"PartitionKey":"","RowKey":"","v":1}');
    assert.deepEqual([partitionKey, rowKey], ["", ""]);
  });

  it("are decoded", () => {
    const { partitionKey, rowKey } = decode(
      '{"RowKey":"a b é%25","PartitionKey":"O\'Br\\u0069en"}',
    );
    assert.deepEqual([partitionKey, rowKey], ["O'Brien", "a b é%25"]);
  });

  it("must both be given without an address", () => {
    for (const body of ["{}", '{"PartitionKey":"p"}', '{"PartitionKey":"p","RowKey":null}']) {
      refuseBody(body, "PropertiesNeedValue");
    }
  });

  it("do not count with an address", () => {
    const address = { partitionKey: "p", rowKey: "r" };
    for (const body of ["{}", `{${KEYS}}`, '{"RowKey":"R"}', '{"PartitionKey":null,"RowKey":5}']) {
      const { partitionKey, rowKey } = decodeEntity(bytes(body), address);
      assert.deepEqual({ partitionKey, rowKey }, address);
    }
  });

  it("must be strings", () => {
    for (const value of ["1", "true", "1.0"]) {
      refuseBody(
        `{"PartitionKey":${value},"RowKey":"r"}`,
        "InvalidInput",
        ERROR_TEXTS.unprocessableBody,
      );
    }
    refuse('"PartitionKey@odata.type":"Edm.Int64"', "InvalidInput");
    check('"PartitionKey@odata.type":"Edm.String","RowKey@odata.type":"Edm.String"', []);
  });

  it("must not contain characters that no URL may, nor unpaired surrogates", () => {
    for (const key of ["a/b", "a#b", "a?b", "a\u0085b", "\u007f"]) {
      refuseBody(
        `{"PartitionKey":"${key}","RowKey":"r"}`,
        "OutOfRangeInput",
        `The 'PartitionKey' parameter of value '${key}' is out of range.`,
      );
    }
    for (const [escaped, key] of [
      ["a\\\\b", "a\\b"],
      ["\\u0000", "\0"],
      ["\\t", "\t"],
      ["\\ud800x", "\ud800x"],
    ]) {
      refuseBody(
        `{"PartitionKey":"p","RowKey":"${escaped}"}`,
        "OutOfRangeInput",
        `The 'RowKey' parameter of value '${key}' is out of range.`,
      );
    }
    assert.equal(decode('{"PartitionKey":"%😀\'\\"","RowKey":"r"}').partitionKey, "%😀'\"");
  });

  it("have a maximum length", () => {
    const longest = "k".repeat(LIMITS.keyLengthMax);
    assert.equal(decode(`{"PartitionKey":"${longest}","RowKey":"r"}`).partitionKey, longest);
    refuseBody(`{"PartitionKey":"p","RowKey":"${longest}k"}`, "PropertyValueTooLarge");
  });
});

describe("The body", () => {
  it("may have white space and a byte order mark", () => {
    const entity = decode(` \r\n{ "a" : 1 ,\t${KEYS} , "b":\n"x" } \n`);
    assert.equal(text(entity.json), ',"a":1,"b":"x"');
    const marked = decodeEntity(
      Uint8Array.of(0xef, 0xbb, 0xbf, ...bytes(`{${KEYS},"c":"\ufeff"}`)),
    );
    assert.equal(text(marked.json), ',"c":"\ufeff"');
  });

  it("must be one JSON object", () => {
    for (const body of [
      "",
      " ",
      "{",
      "}",
      "null",
      "[]",
      '"a"',
      `{${KEYS}`,
      `{${KEYS},}`,
      `{,${KEYS}}`,
      `{${KEYS}}}`,
      `{${KEYS}}{}`,
      `{${KEYS},"a"}`,
      `{${KEYS},"a":}`,
      `{${KEYS},"a":1 "b":2}`,
      `{${KEYS},"a":"x}`,
      `{${KEYS},"a":"\\x"}`,
      `{${KEYS},"a":"\\u12g4"}`,
      `{${KEYS};"a":1}`,
      `{${KEYS} "a":1}`,
      `{${KEYS},"a":"x\ny"}`,
      `{${KEYS},"a":tru}`,
      `{${KEYS},"a":1.}`,
      `{${KEYS},"a":1e}`,
      `{${KEYS},"a":-}`,
      `{${KEYS},'a':1}`,
      `{${KEYS},a:1}`,
      `{${KEYS},"a":1/**/}`,
    ]) {
      refuseBody(body, "InvalidInput");
    }
  });

  it("must be UTF-8", () => {
    for (const wrong of [
      [0x80],
      [0xc0, 0x80],
      [0xe0, 0x80, 0x80],
      [0xed, 0xa0, 0x80],
      [0xff],
      [0xf4, 0x90, 0x80, 0x80],
      [0xc3],
    ]) {
      const body = Uint8Array.of(...bytes(`{${KEYS},"a":"`), ...wrong, ...bytes('"}'));
      assert.throws(
        () => decodeEntity(body),
        new ServiceError("InvalidInput", { message: ERROR_TEXTS.unprocessableBody }),
      );
    }
  });

  it("must not repeat a name", () => {
    for (const twice of [
      '"a":1,"a":1',
      '"a":null,"a":1',
      '"a":1,"a":null',
      '"RowKey":"r"',
      '"a":1,"\\u0061":2',
      '"Timestamp":1,"Timestamp":1',
    ]) {
      refuse(twice, "DuplicatePropertiesSpecified");
    }
    refuse('"a":"1","a@odata.type":"Edm.Int64","a@odata.type":"Edm.Int64"', "InvalidInput");
  });
});

describe("A decoded body", () => {
  it("is not modified, even if its names are escaped", () => {
    const body = bytes(`{${KEYS},"\\u0061bc":1}`);
    const before = Uint8Array.from(body);
    for (let time = 0; time < 2; time++) {
      assert.equal(text(decodeEntity(body).json), ',"abc":1');
      assert.deepEqual(body, before);
    }
  });
});

describe("Random bodies", () => {
  it("are read as JSON.parse reads them", () => {
    const value = fc.oneof(
      fc.string({ unit: "binary" }),
      fc.integer({ min: -(2 ** 31), max: 2 ** 31 - 1 }),
      fc.boolean(),
      fc.constant(null),
    );
    const names = fc.stringMatching(/^[A-Za-z_][A-Za-z0-9_]{0,12}$/);
    const entities = fc.dictionary(names, value, { maxKeys: 20, noNullPrototype: true });
    fc.assert(
      fc.property(entities, fc.constantFrom(0, 1), fc.boolean(), (entity, spaces, ascii) => {
        let body = JSON.stringify({ PartitionKey: "p", ...entity, RowKey: "r" }, null, spaces);
        if (ascii) {
          body = body.replace(
            /[^\n -~]/g,
            (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, "0")}`,
          );
        }
        const { json, properties } = decode(body);
        const kept = Object.entries(entity).filter(([, each]) => each !== null);
        assert.equal(
          text(json),
          kept.map(([name, each]) => `,${JSON.stringify(name)}:${JSON.stringify(each)}`).join(""),
        );
        assert.equal(properties.length, kept.length);
      }),
    );
  });

  it("are decoded to valid JSON or refused with a ServiceError", () => {
    const example =
      '{"PartitionKey":"p1","RowKey":"r1","age":"39","age@odata.type":"Edm.Int64","married":true,"optional":null,' +
      '"ratio":3.1,"Birthday":"1973-10-04T00:00:00Z","Birthday@odata.type":"Edm.DateTime","binary":"YmluYXJ5",' +
      '"binary@odata.type":"Edm.Binary","sex":"m\\u00e9ö","clsid":"C9DA6455-213D-42C9-9A79-3E9149A57833","clsid@odata.type":"Edm.Guid"}';
    const edits = fc.array(
      fc.tuple(fc.nat(), fc.nat(3), fc.constantFrom(...'{}[]":,\\0-.eE@aé\0n\xff')),
      {
        minLength: 1,
        maxLength: 5,
      },
    );
    fc.assert(
      fc.property(edits, (list) => {
        let body = bytes(example);
        for (const [position, length, insert] of list) {
          const at = position % body.length;
          const inserted = Buffer.from(insert, "latin1");
          body = Buffer.concat([body.subarray(0, at), inserted, body.subarray(at + length)]);
        }
        attempt(body);
      }),
      { numRuns: 2000 },
    );
    fc.assert(fc.property(fc.uint8Array({ maxLength: 200 }), attempt));
  });

  function attempt(body: Uint8Array): void {
    try {
      const { json } = decodeEntity(body);
      JSON.parse(`{${text(json).slice(1)}}`);
    } catch (error) {
      assert.ok(error instanceof ServiceError, String(error));
    }
  }
});

it("Decoding one entity does not overwrite the bytes of another", () => {
  const first = decode(`{${KEYS},"a":"first"}`);
  refuse('"a":"second","b":{}', "InvalidInput");
  const third = decode(`{${KEYS},"a":"third"}`);
  assert.equal(text(first.json), ',"a":"first"');
  assert.equal(text(third.json), ',"a":"third"');
});

describe("The name of a table to create", () => {
  it("is returned unchanged", () => {
    assert.equal(decodeTableName(bytes('{"TableName":"t1"}')), "t1");
    assert.equal(
      decodeTableName(bytes('{"odata.type":"a.Tables", "TableName" : "a\\u002db"}')),
      "a-b",
    );
  });

  it("must be a non-empty string", () => {
    for (const body of [
      "{}",
      '{"TableName":null}',
      '{"TableName":""}',
      '{"TableName":5}',
      '{"tablename":"t"}',
    ]) {
      assert.throws(() => decodeTableName(bytes(body)), new ServiceError("InvalidInput"));
    }
    assert.throws(
      () => decodeTableName(bytes("t1")),
      new ServiceError("InvalidInput", { message: ERROR_TEXTS.unprocessableBody }),
    );
  });
});

/** Decodes the two keys and `members`; `expected` is the stored text of each property. */
function check(members: string, expected: readonly string[]): void {
  const { json, properties } = decode(`{${KEYS},${members}}`);
  const parts: string[] = [];
  let start = 0;
  for (const { end } of properties) {
    parts.push(decodeUtf8(json, start + 1, end));
    start = end;
  }
  assert.deepEqual(parts, expected);
  assert.equal(start, json.length);
}

function refuse(members: string, code: ErrorCode, message?: string): void {
  refuseBody(`{${KEYS},${members}}`, code, message);
}

function refuseBody(body: string, code: ErrorCode, message = textOf(code)): void {
  assert.throws(() => decode(body), { name: "ServiceError", code, message }, body.slice(0, 200));
}

/** The default message of a code; malformed bodies have their own. */
function textOf(code: ErrorCode): string {
  return code === "InvalidInput" ? ERROR_TEXTS.unprocessableBody : ERRORS[code][1];
}

function decode(body: string) {
  return decodeEntity(bytes(body));
}

function bytes(body: string): Uint8Array {
  return new TextEncoder().encode(body);
}

function text(json: Uint8Array): string {
  return decodeUtf8(json, 0, json.length);
}
