import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { record } from "../test-traffic.ts";
import { suggestIndexes, usesOf } from "./suggest-indexes.ts";

describe("Suggested indexes", () => {
  it("are those that recorded queries would use, the most useful first, with a reason against the others", () => {
    const traffic = record();
    for (let i = 0; i < 10; i++) {
      traffic.query(`Email eq 'x${i}'`, { read: 1000, returned: 1 });
      traffic.query("Town eq 'Redmond' and Age gt 30", { read: 1000, returned: 10 });
      traffic.query("PartitionKey eq 'p' and Age ge 5", { read: 50, returned: 2 });
      traffic.query("Status eq 'open'", { read: 1000, returned: 900 });
      traffic.query(`Kind eq '${i < 8 ? "usual" : i}'`, { read: 1000, returned: i < 8 ? 800 : 1 });
      traffic.query("RowKey eq 'r'", { read: 1000, returned: 1 });
      traffic.query("PartitionKey eq 'p' and RowKey eq 'r'", { read: 1, returned: 1 });
    }
    traffic.query("Rare eq 5L", { read: 1000, returned: 1 });
    for (let i = 0; i < 100; i++) traffic.write("p", [["replace", "r", undefined]]);
    const found = suggestIndexes(traffic.text().split("\n"));
    assert.deepEqual(
      found.map(({ key, refusal }) => [key, refusal?.split(":")[0]]),
      [
        ["Email:String", undefined],
        ["Town:String,Age:Int32", undefined],
        ["Kind:String", "skewed"],
        ["Status:String", "unselective"],
        ["Rare:Int64", "unused"],
        ["PartitionKey,Age:Int32", "volatile"],
      ],
    );
    assert.match(found[2]!.refusal!, /^skewed: 8 of 10 queries .* such as Kind eq 'usual'$/);
    const [email] = found;
    assert.deepEqual([email!.table, email!.queries, email!.writes], ["a/T", 10, 100]);
    assert.equal(email!.savedMicros, Math.round(9990 * 1.9));
  });

  it("say how many shapes of recorded queries would use a key", () => {
    const traffic = record();
    traffic.query("Email eq 'a'", { read: 10, returned: 1 });
    traffic.query("Email eq 'b'", { read: 10, returned: 1 });
    traffic.query("Age gt 5", { read: 10, returned: 1 });
    traffic.query("Email eq 'b'", { read: 10, returned: 1, table: "Other" });
    const lines = traffic.text().split("\n");
    assert.deepEqual(usesOf(lines, "t", "Email:String"), { shapes: 2, used: 1 });
  });
});
