import assert from "node:assert/strict";
import { describe, it } from "node:test";
import fc from "fast-check";
import { cutCells } from "./cut-cells.ts";

const cut = (json: string, lengthMax: number) =>
  cutCells(Buffer.from(json), lengthMax).toString("utf8");

describe("Cutting the cells of a list", () => {
  it("changes long strings alone: numbers keep their digits, keys and types stay", () => {
    const json =
      '{"odata.metadata":"http://127.0.0.1:10002/a/$metadata#T","value":[' +
      '{"odata.etag":"W/\\"datetime\'2020\'\\"","PartitionKey":"longer than four","RowKey":"","Timestamp":"2020-01-01T00:00:00Z",' +
      '"n":1.0,"i@odata.type":"Edm.Int64","i":"12345678","e":"","t":"\\"\\\\\\u00e9xyz","ok":"four"}]}';
    const shorter =
      '{"odata.metadata":"http://127.0.0.1:10002/a/$metadata#T","value":[' +
      '{"odata.etag":"W/\\"datetime\'2020\'\\"","PartitionKey":"longer than four","RowKey":"","Timestamp":"2020-01-01T00:00:00Z",' +
      '"n":1.0,"i@odata.type":"Edm.Int64","i":"1234","i@rowhouse.length":8,"e":"","t":"\\"\\\\éx","t@rowhouse.length":6,"ok":"four"}]}';
    assert.equal(cut(json, 4), shorter);
    assert.equal(cut(json, 100), json);
  });

  it("leaves valid JSON that says how long each cut value was, whatever the text is", () => {
    const rows = fc.array(
      fc.dictionary(
        fc.string(),
        fc.oneof(
          fc.string({ unit: "grapheme", maxLength: 40 }),
          fc.string({ unit: fc.constantFrom("a", "b"), maxLength: 200 }),
        ),
      ),
    );
    fc.assert(
      fc.property(rows, fc.integer({ min: 1, max: 20 }), (value, lengthMax) => {
        const json = JSON.stringify({ value });
        const cutValue = JSON.parse(cut(json, lengthMax)) as { value: Record<string, unknown>[] };
        value.forEach((row, i) => {
          for (const [name, text] of Object.entries(row)) {
            if (
              name.includes("@") ||
              /^(PartitionKey|RowKey|Timestamp|odata\..*)$|["\\]/.test(name)
            )
              continue;
            const got = cutValue.value[i]![name] as string;
            assert.ok(text.startsWith(got) && got.length <= Math.max(lengthMax, 0));
            const length = cutValue.value[i]![`${name}@rowhouse.length`];
            assert.equal(length, text.length > lengthMax ? text.length : undefined);
            assert.doesNotThrow(() => encodeURIComponent(got) && true);
          }
        });
      }),
    );
  });
});
