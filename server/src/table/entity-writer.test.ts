import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { printDateTime, ticksOfMicros } from "@rowhouse/protocol/date-time";
import { decodeEntity } from "@rowhouse/protocol/entity-json";
import { entityPath } from "@rowhouse/protocol/entity-url";
import fc from "fast-check";
import { copyOf } from "../wire/body-bytes.ts";
import { encodeRecord } from "./entity-record.ts";
import { EntityListWriter, entityBody } from "./entity-writer.ts";
import type { MetadataLevel } from "./negotiate.ts";
import { RecordView } from "./record-view.ts";
import {
  annotatedMembers,
  decoded,
  type RandomEntity,
  randomEntities,
} from "./test-random-entities.ts";

const LEVELS: readonly MetadataLevel[] = ["nometadata", "minimalmetadata", "fullmetadata"];
const BASE = "http://127.0.0.1:10002/devstoreaccount1";
const PLACE = {
  baseUrl: BASE,
  account: { name: "devstoreaccount1" },
  location: { name: "People" },
};
const MICROS = Date.UTC(2021, 0, 6, 1, 1, 30) * 1000 + 929_671;
const TIME = "2021-01-06T01:01:30.929671Z";
const ETAG = "W/\\\"datetime'2021-01-06T01%3A01%3A30.929671Z'\\\"";
const CONTEXT = /"odata\.metadata":"[^"]*",/;

/** The entity of the service's own example, with every type in it. */
const EXAMPLE = encodeRecord(
  decodeEntity(
    Buffer.from(
      '{"PartitionKey":"p1","RowKey":"r1","age":"39","age@odata.type":"Edm.Int64","sex":"male","married":true,"optional":null,"evenratio":3.0,"ratio":3.1,"Birthday":"1973-10-04T00:00:00Z","Birthday@odata.type":"Edm.DateTime","binary":"YmluYXJ5","binary@odata.type":"Edm.Binary","other":20,"clsid":"C9DA6455-213D-42C9-9A79-3E9149A57833","clsid@odata.type":"Edm.Guid","Timestamp":null}',
    ),
  ),
  MICROS,
);
const ANNOTATED =
  '"age@odata.type":"Edm.Int64","age":"39","sex":"male","married":true,"evenratio":3.0,"ratio":3.1,"Birthday@odata.type":"Edm.DateTime","Birthday":"1973-10-04T00:00:00Z","binary@odata.type":"Edm.Binary","binary":"YmluYXJ5","other":20,"clsid@odata.type":"Edm.Guid","clsid":"c9da6455-213d-42c9-9a79-3e9149a57833"';
const BARE =
  '"age":"39","sex":"male","married":true,"evenratio":3.0,"ratio":3.1,"Birthday":"1973-10-04T00:00:00Z","binary":"YmluYXJ5","other":20,"clsid":"c9da6455-213d-42c9-9a79-3e9149a57833"';

describe("the JSON of one entity", () => {
  it("has no annotations at nometadata", () => {
    check(
      entityJson(EXAMPLE, PLACE, "nometadata"),
      `{"PartitionKey":"p1","RowKey":"r1","Timestamp":"${TIME}",${BARE}}`,
    );
  });

  it("has its ETag and the types that JSON cannot express at minimalmetadata", () => {
    check(
      entityJson(EXAMPLE, PLACE, "minimalmetadata"),
      `{"odata.metadata":"${BASE}/$metadata#People/@Element","odata.etag":"${ETAG}","PartitionKey":"p1","RowKey":"r1","Timestamp":"${TIME}",${ANNOTATED}}`,
    );
  });

  it("also has its type, its id, its edit link and the type of Timestamp at fullmetadata", () => {
    check(
      entityJson(EXAMPLE, PLACE, "fullmetadata"),
      `{"odata.metadata":"${BASE}/$metadata#People/@Element","odata.type":"devstoreaccount1.People","odata.id":"${BASE}/People(PartitionKey='p1',RowKey='r1')","odata.etag":"${ETAG}","odata.editLink":"People(PartitionKey='p1',RowKey='r1')","PartitionKey":"p1","RowKey":"r1","Timestamp@odata.type":"Edm.DateTime","Timestamp":"${TIME}",${ANNOTATED}}`,
    );
  });

  it("may have no properties besides the keys and Timestamp", () => {
    const record = encodeRecord(decodeEntity(Buffer.from('{"PartitionKey":"","RowKey":""}')), 0);
    check(
      entityJson(record, PLACE, "nometadata"),
      '{"PartitionKey":"","RowKey":"","Timestamp":"1970-01-01T00:00:00Z"}',
    );
  });

  it("contains the URL, account and table of the request", () => {
    const place = { ...PLACE, location: { name: "t2" } };
    for (const each of [
      PLACE,
      place,
      { ...place, baseUrl: "https://h" },
      { ...place, account: { name: "a" } },
    ]) {
      const body: unknown = JSON.parse(text(entityJson(EXAMPLE, each, "fullmetadata")));
      assert.deepEqual(pick(body, ["odata.metadata", "odata.type"]), [
        `${each.baseUrl}/$metadata#${each.location.name}/@Element`,
        `${each.account.name}.${each.location.name}`,
      ]);
    }
  });

  it("escapes keys as URLs require in paths, and as JSON requires elsewhere", () => {
    const record = encodeRecord(
      decodeEntity(Buffer.from('{"PartitionKey":"O\'Br\\"ien","RowKey":"a b é%25"}')),
      MICROS,
    );
    const path = "People(PartitionKey='O''Br%22ien',RowKey='a%20b%20%C3%A9%2525')";
    check(
      entityJson(record, PLACE, "fullmetadata"),
      `{"odata.metadata":"${BASE}/$metadata#People/@Element","odata.type":"devstoreaccount1.People","odata.id":"${BASE}/${path}","odata.etag":"${ETAG}","odata.editLink":"${path}","PartitionKey":"O'Br\\"ien","RowKey":"a b é%25","Timestamp@odata.type":"Edm.DateTime","Timestamp":"${TIME}"}`,
    );
  });
});

describe("the JSON of a projection", () => {
  it("has the selected properties in that order, missing ones as null, and nothing else but the ETag", () => {
    check(
      entityJson(EXAMPLE, PLACE, "minimalmetadata", ["age", "sex", "xyz"]),
      `{"odata.metadata":"${BASE}/$metadata#People/@Element&$select=age,sex,xyz","odata.etag":"${ETAG}","age@odata.type":"Edm.Int64","age":"39","sex":"male","xyz":null}`,
    );
    check(
      entityJson(EXAMPLE, PLACE, "nometadata", ["xyz", "clsid", "age"]),
      '{"xyz":null,"clsid":"c9da6455-213d-42c9-9a79-3e9149a57833","age":"39"}',
    );
  });

  it("may select keys and Timestamp", () => {
    const names = ["Timestamp", "RowKey", "other", "PartitionKey"];
    check(
      entityJson(EXAMPLE, PLACE, "nometadata", names),
      `{"Timestamp":"${TIME}","RowKey":"r1","other":20,"PartitionKey":"p1"}`,
    );
    check(
      entityJson(EXAMPLE, PLACE, "minimalmetadata", ["Timestamp"]),
      `{"odata.metadata":"${BASE}/$metadata#People/@Element&$select=Timestamp","odata.etag":"${ETAG}","Timestamp":"${TIME}"}`,
    );
    check(
      entityJson(EXAMPLE, PLACE, "fullmetadata", names),
      `{"odata.metadata":"${BASE}/$metadata#People/@Element&$select=Timestamp,RowKey,other,PartitionKey","odata.type":"devstoreaccount1.People","odata.id":"${BASE}/People(PartitionKey='p1',RowKey='r1')","odata.etag":"${ETAG}","odata.editLink":"People(PartitionKey='p1',RowKey='r1')","Timestamp@odata.type":"Edm.DateTime","Timestamp":"${TIME}","RowKey":"r1","other":20,"PartitionKey":"p1"}`,
    );
  });

  it("selects properties by their exact case", () => {
    check(entityJson(EXAMPLE, PLACE, "nometadata", ["Age", "名"]), '{"Age":null,"名":null}');
  });

  it("is complete even when the missing names are far longer than the entity", () => {
    const names = Array.from({ length: 100 }, (_, i) => `n${i}`.padEnd(255, "_"));
    const expected = `{${names.map((name) => `"${name}":null`).join(",")}}`;
    check(entityJson(EXAMPLE, PLACE, "nometadata", names), expected);
    const list = new EntityListWriter(PLACE, "nometadata", names);
    const count = 1000;
    const view = new RecordView();
    view.reset(EXAMPLE);
    for (let i = 0; i < count; i++) list.add(view);
    const { value } = JSON.parse(text(copyOf(list.finish())));
    assert.deepEqual([value.length, JSON.stringify(value.at(-1))], [count, expected]);
  });
});

describe("the JSON of a list", () => {
  it("has odata.metadata once, and each entity's own annotations", () => {
    check(
      list("minimalmetadata", [EXAMPLE, EXAMPLE]),
      `{"odata.metadata":"${BASE}/$metadata#People","value":[${Array(2).fill(`{"odata.etag":"${ETAG}","PartitionKey":"p1","RowKey":"r1","Timestamp":"${TIME}",${ANNOTATED}}`)}]}`,
    );
    check(
      list("nometadata", [EXAMPLE]),
      `{"value":[{"PartitionKey":"p1","RowKey":"r1","Timestamp":"${TIME}",${BARE}}]}`,
    );
    check(
      list("fullmetadata", [EXAMPLE], ["sex"]),
      `{"odata.metadata":"${BASE}/$metadata#People&$select=sex","value":[{"odata.type":"devstoreaccount1.People","odata.id":"${BASE}/People(PartitionKey='p1',RowKey='r1')","odata.etag":"${ETAG}","odata.editLink":"People(PartitionKey='p1',RowKey='r1')","sex":"male"}]}`,
    );
  });

  it("may have no entities", () => {
    check(list("minimalmetadata", []), `{"odata.metadata":"${BASE}/$metadata#People","value":[]}`);
    check(list("nometadata", []), '{"value":[]}');
  });

  it("may have a thousand entities of different lengths", () => {
    const records = Array.from({ length: 1000 }, (_, i) =>
      encodeRecord(
        decodeEntity(
          Buffer.from(`{"PartitionKey":"p","RowKey":"${i}","t":"${"x".repeat(i * 5)}"}`),
        ),
        MICROS + i,
      ),
    );
    const { value } = JSON.parse(text(list("nometadata", records)));
    assert.deepEqual(
      value.map((entity: unknown) => pick(entity, ["RowKey", "Timestamp", "t"])),
      records.map((_, i) => [String(i), timestamp(MICROS + i), "x".repeat(i * 5)]),
    );
  });

  it("is complete wherever the memory for it ends", () => {
    const key = "é'".repeat(20);
    const small = encodeRecord(decoded({ partitionKey: key, rowKey: key, properties: [] }), MICROS);
    const view = new RecordView();
    for (const level of LEVELS) {
      for (let padding = 0; padding < 1000; padding += 25) {
        const [a, b] = ["名".repeat(20_000), `${"名".repeat(20_000)}${"x".repeat(padding)}`];
        const json = JSON.stringify({ PartitionKey: "", RowKey: "", a, b });
        const large = encodeRecord(decodeEntity(Buffer.from(json)), MICROS);
        const records = [large, ...Array.from({ length: 50 }, () => small)];
        const writer = new EntityListWriter(PLACE, level, undefined);
        for (const record of records) {
          view.reset(record);
          writer.add(view);
        }
        // Not given back, so that each list begins in memory of the same length.
        const { memory, start, end } = writer.finish();
        const alone = records.map((record) => entityJson(record, PLACE, level));
        check(memory.subarray(start, end), listOf(alone));
      }
    }
  });

  for (const level of LEVELS) {
    it(`has the exact times of one day, whichever digit differs, at ${level}`, () => {
      const times = ["01:02:03.456789", "21:02:03.456789", "22:02:03.456789", "22:32:03.456789"];
      times.push("22:35:03.456789", "22:35:13.456789", "22:35:14.456789", "22:35:14.556789");
      times.push("22:35:14.566789", "22:35:14.567789", "22:35:14.567889", "22:35:14.567899");
      times.push("22:35:14.567891", "01:02:03.456", "21:42:53.999", "05:06:07", "23:59:59");
      const records = times.map((time) => {
        const [second = "", fraction = ""] = time.split(".");
        const micros = Date.parse(`2021-01-06T${second}Z`) * 1000 + Number(fraction.padEnd(6, "0"));
        return encodeRecord(decodeEntity(Buffer.from('{"PartitionKey":"p","RowKey":"r"}')), micros);
      });
      const { value } = JSON.parse(text(list(level, records)));
      assert.deepEqual(
        value.map((entity: unknown) => pick(entity, ["Timestamp", "odata.etag"])),
        times.map((time) => [
          `2021-01-06T${time}Z`,
          level === "nometadata"
            ? undefined
            : `W/"datetime'2021-01-06T${time.replaceAll(":", "%3A")}Z'"`,
        ]),
      );
    });
  }

  it("has keys of all lengths next to each other, at times of all lengths", () => {
    // The longest ones make heads that are too long to be repeated.
    const lengths = ["1", "10", "", "é".repeat(500), "2", "x".repeat(512), "é".repeat(200), "3"];
    const keys = lengths.flatMap((rowKey) =>
      ["p", "qq", "é".repeat(300), ""].map((partitionKey) => ({ partitionKey, rowKey })),
    );
    for (const level of LEVELS) {
      for (const micros of [MICROS, MICROS + 1, MICROS + 10, MICROS + 2]) {
        const records = keys.map((each) =>
          encodeRecord(decoded({ ...each, properties: [] }), micros),
        );
        const { value } = JSON.parse(text(list(level, records)));
        assert.deepEqual(
          value.map((entity: unknown) => pick(entity, ["PartitionKey", "RowKey", "Timestamp"])),
          keys.map(({ partitionKey, rowKey }) => [partitionKey, rowKey, timestamp(micros)]),
        );
      }
    }
  });

  it("has the paths of keys of the same length, whether they are escaped or not", () => {
    const texts = ["a b", "abc", "é1", "ab ", "cba", " ab", "a'b", "xyz", "é2", "bca"];
    const keys = texts.flatMap((partitionKey) => texts.map((rowKey) => ({ partitionKey, rowKey })));
    // So that keys of every kind follow each other.
    for (const step of [1, 3, 7, 11, 13, 17, 19]) {
      const ordered = keys.map((_, i) => keys[(i * step) % keys.length]!);
      const records = ordered.map((each) =>
        encodeRecord(decoded({ ...each, properties: [] }), MICROS),
      );
      const { value } = JSON.parse(text(list("fullmetadata", records)));
      assert.deepEqual(
        value.map((entity: unknown) => pick(entity, ["odata.id", "odata.editLink", "RowKey"])),
        ordered.map(({ partitionKey, rowKey }) => {
          const path = entityPath("People", partitionKey, rowKey);
          return [`${BASE}/${path}`, path, rowKey];
        }),
      );
    }
  });

  it("has heads of every length around the longest that are repeated", () => {
    for (const level of LEVELS) {
      const records = Array.from({ length: 73 }, (_, i) => {
        const rowKey = "é".repeat(440) + "x".repeat(i);
        return encodeRecord(decoded({ partitionKey: "p", rowKey, properties: [] }), MICROS);
      });
      checkEachAsAlone(level, records);
    }
  });

  it("has the head and the properties of each entity, whatever came before it", () => {
    // So few keys and times that most of them follow each other somewhere.
    const second = MICROS - 929_671;
    const times = [MICROS, MICROS + 1, MICROS + 86_400_000_000, second, second + 5_000_000];
    const properties = [
      '"a":"39","a@odata.type":"Edm.Int64","b":1,"c":"YQ==","c@odata.type":"Edm.Binary"',
      '"b":2,"a":"text"',
      // Their directory is longer than any head.
      Array.from({ length: 60 }, (_, i) => `"p${i}":${i}`).join(),
    ];
    const parts = fc.tuple(
      fc.constantFrom("", "p", "q", "pp"),
      fc.constantFrom("", "1", "2", "10"),
      fc.constantFrom(...times),
      fc.constantFrom(...properties),
    );
    const selects = [undefined, ["a", "b"], ["PartitionKey", "RowKey", "Timestamp", "b"]];
    fc.assert(
      fc.property(fc.array(parts, { minLength: 300, maxLength: 300 }), (entities) => {
        const records = entities.map(([partitionKey, rowKey, micros, members]) => {
          const json = `{"PartitionKey":"${partitionKey}","RowKey":"${rowKey}",${members}}`;
          return encodeRecord(decodeEntity(Buffer.from(json)), micros);
        });
        for (const level of LEVELS) {
          for (const select of selects) checkEachAsAlone(level, records, select);
        }
      }),
      { numRuns: 4 },
    );
  });

  it("equals a plain rendering of its entities at every level, whatever their order", () => {
    // Keys and times are close together, so that heads partly repeat.
    const stamps = fc.oneof(
      fc.integer({ min: MICROS, max: MICROS + 20 }),
      fc.integer({ min: 0, max: 9 }).map((day) => MICROS + day * 86_400_000_000 - 3_600_000_000),
      fc.nat(Number.MAX_SAFE_INTEGER),
    );
    const keys = fc.record({
      partitionKey: fc.constantFrom("p", "q", "pp", "é", '"'),
      rowKey: fc.constantFrom("1", "2", "10", "😀", ""),
    });
    const entities = fc.tuple(
      fc.oneof(
        randomEntities,
        keys.map((each) => ({ ...each, properties: [] })),
      ),
      stamps,
    );
    fc.assert(
      fc.property(
        fc.array(entities, { maxLength: 8 }),
        fc.constantFrom(...LEVELS),
        (pairs, level) => {
          const records = pairs.map(([entity, micros]) => encodeRecord(decoded(entity), micros));
          const context =
            level === "nometadata" ? "" : `"odata.metadata":"${BASE}/$metadata#People",`;
          const items = pairs.map(
            ([entity, micros]) => `{${expectedMembers(entity, micros, level)}}`,
          );
          check(list(level, records), `{${context}"value":[${items.join(",")}]}`);
        },
      ),
    );
  });
});

describe("a list with $select", () => {
  it("has each entity as it would be alone, whatever is selected and in whatever order", () => {
    const names = ["PartitionKey", "RowKey", "Timestamp", "A", "B", "C", "missing"];
    const selects = fc.oneof(
      fc.shuffledSubarray(names, { minLength: 1 }),
      fc
        .shuffledSubarray(names.slice(3))
        .map((rest) => ["PartitionKey", "RowKey", "Timestamp", ...rest]),
    );
    const entities = fc.record({
      PartitionKey: fc.constantFrom("p", "q"),
      RowKey: fc.constantFrom("1", "2", "10", "é".repeat(500)),
      A: fc.constantFrom("", "a", "long".repeat(20)),
      B: fc.integer(),
      C: fc.date({ noInvalidDate: true, min: new Date(0), max: new Date(4e12) }),
    });
    const stamps = fc.integer({ min: MICROS, max: MICROS + 20 });
    fc.assert(
      fc.property(
        fc.array(fc.tuple(entities, stamps), { minLength: 1, maxLength: 8 }),
        selects,
        fc.constantFrom(...LEVELS),
        fc.boolean(),
        (pairs, select, level, isSparse) => {
          const records = pairs.map(([{ A, B, C, ...keys }, micros], i) => {
            const properties = isSparse && i % 2 === 1 ? { B, A } : { A, B, C };
            const annotations = { "C@odata.type": "Edm.DateTime" };
            const json = JSON.stringify({ ...keys, ...annotations, ...properties });
            return encodeRecord(decodeEntity(Buffer.from(json)), micros);
          });
          checkEachAsAlone(level, records, select);
        },
      ),
    );
  });
});

describe("lists that are written at the same time", () => {
  it("have the place, level and $select of their own requests", () => {
    const places = [
      PLACE,
      { ...PLACE, baseUrl: "https://h" },
      { ...PLACE, location: { name: "t" } },
    ];
    const selects = [undefined, ["sex"], ["sex", "age"], ["age"]];
    const requests = places.flatMap((place) =>
      LEVELS.flatMap((level) => selects.map((select) => ({ place, level, select }))),
    );
    const json = Buffer.from('{"PartitionKey":"p","RowKey":"r","age":1,"sex":"m"}');
    const records = [MICROS, MICROS + 1].map((micros) => encodeRecord(decodeEntity(json), micros));
    const view = new RecordView();
    for (const first of requests) {
      for (const second of requests) {
        const lists = [first, second].map((request) => ({
          ...request,
          writer: new EntityListWriter(request.place, request.level, request.select),
        }));
        for (const record of records) {
          view.reset(record);
          for (const { writer } of lists) writer.add(view);
        }
        for (const { place, level, select, writer } of lists) {
          const alone = records.map((record) => entityJson(record, place, level, select));
          check(copyOf(writer.finish()), listOf(alone));
        }
      }
    }
  });
});

/** The service's representation of an entity, produced in the plainest way. */
function expectedMembers(entity: RandomEntity, micros: number, level: MetadataLevel): string {
  const { partitionKey, rowKey, properties } = entity;
  const path = entityPath("People", partitionKey, rowKey);
  const time = timestamp(micros);
  const etag = `"odata.etag":${JSON.stringify(`W/"datetime'${time.replaceAll(":", "%3A")}'"`)}`;
  const control = {
    nometadata: [],
    minimalmetadata: [etag],
    fullmetadata: [
      '"odata.type":"devstoreaccount1.People"',
      `"odata.id":"${BASE}/${path}"`,
      etag,
      `"odata.editLink":"${path}"`,
    ],
  }[level];
  return [
    ...control,
    `"PartitionKey":${JSON.stringify(partitionKey)}`,
    `"RowKey":${JSON.stringify(rowKey)}`,
    ...(level === "fullmetadata" ? ['"Timestamp@odata.type":"Edm.DateTime"'] : []),
    `"Timestamp":"${time}"`,
    ...properties.map((property) =>
      level === "nometadata" ? `"${property.name}":${property.json}` : annotatedMembers(property),
    ),
  ].join(",");
}

function timestamp(micros: number): string {
  return printDateTime(ticksOfMicros(micros));
}

function list(
  level: MetadataLevel,
  records: readonly Uint8Array[],
  select?: readonly string[],
): Uint8Array {
  const writer = new EntityListWriter(PLACE, level, select);
  const view = new RecordView();
  for (const record of records) {
    view.reset(record);
    writer.add(view);
  }
  return copyOf(writer.finish());
}

function checkEachAsAlone(
  level: MetadataLevel,
  records: readonly Uint8Array[],
  select?: readonly string[],
): void {
  const alone = records.map((record) => entityJson(record, PLACE, level, select));
  check(list(level, records, select), listOf(alone));
}

/** The list of entities, at least one, that alone have these bodies. */
function listOf(bodies: readonly Uint8Array[]): string {
  const texts = bodies.map(text);
  const [context = ""] = CONTEXT.exec(texts[0]!) ?? [];
  const entities = texts.map((body) => body.replace(CONTEXT, ""));
  return `{${context.replace("/@Element", "")}"value":[${entities}]}`;
}

function check(body: Uint8Array, expected: string): void {
  assert.equal(text(body), expected);
}

function entityJson(...parameters: Parameters<typeof entityBody>): Uint8Array {
  return copyOf(entityBody(...parameters));
}

function text(body: Uint8Array): string {
  return Buffer.from(body).toString();
}

function pick(object: unknown, names: readonly string[]): unknown[] {
  assert.ok(typeof object === "object" && object !== null);
  const members = new Map<string, unknown>(Object.entries(object));
  return names.map((name) => members.get(name));
}
