import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { describe, it } from "node:test";
import { BLOB_OPERATIONS } from "@rowhouse/server/blob/blob-service";
import { QUEUE_OPERATIONS } from "@rowhouse/server/queue/queue-service";
import { TABLE_OPERATIONS } from "@rowhouse/server/table/table-service";

const page = readFileSync(new URL("../COMPATIBILITY.md", import.meta.url), "utf8");

describe("COMPATIBILITY.md", () => {
  it("gives every row one of four verdicts: yes, partly, no, different", () => {
    const rows = page
      .split("\n")
      .filter((line) => /^\| (?!(Operation|Behaviour|Client) \|)/.test(line));
    for (const row of rows) assert.match(row, /^\| [^|]+ \| (yes|partly|no|different) \|/);
    assert.equal(rows.length > 80, true, `${rows.length} rows`);
  });

  const services = {
    Table: TABLE_OPERATIONS,
    Queue: QUEUE_OPERATIONS,
    Blob: BLOB_OPERATIONS,
  };
  for (const [service, operations] of Object.entries(services)) {
    it(`has a row for every operation of the ${service} service, and no other rows`, () => {
      const section = page
        .split(/^## /m)
        .find((each) => each.startsWith(`${service} service: operations`));
      const rows = [
        ...(section ?? "").matchAll(/^\| ([A-Z]\w+) \| (yes|partly|no|different) \|/gm),
      ];
      assert.deepEqual(
        rows.map(([, name]) => name).sort(),
        [...new Set(operations.map(({ name }) => name))].sort(),
      );
    });
  }
});
