import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { adviseOn, costAfter, drawnLayout, splitRecordings } from "./advice.ts";
import { codeOf } from "./advice-code.ts";

describe("The advisor", () => {
  const query = (ms: number) =>
    JSON.stringify(["q", ms, 4, null, null, "Email eq 'x'", 0, 1000, 1, 100]);
  const recording = ['["rowhouse-recording",5]', '["o","::1","a","People"]', query(5000)];
  const text = [...recording, query(10), query(10), '["end",0,0]', ""].join("\n");

  it("splits what the server sent into its recordings", () => {
    assert.deepEqual(
      splitRecordings(`${text}${text}`).map((lines) => lines.length),
      [6, 7],
    );
    assert.deepEqual(splitRecordings(""), []);
  });

  it("advises on them as the command line does, with samples of the tables that were asked", async () => {
    const asked: string[] = [];
    const { advice, since, samples } = await adviseOn(text, "a", async (table) => {
      asked.push(table);
      const json =
        '{"value":[{"PartitionKey":"p","RowKey":"r","Timestamp":"2020-01-01T00:00:00Z","n":1.0}]}';
      return { entities: 5000, bytes: 500_000, onlyPartition: "p", json };
    });
    assert.deepEqual(asked, ["People"]);
    assert.equal(since, 5000);
    assert.equal(samples.get("People")![0]!.partitionKey, "p");
    const scan = advice.findings.find(({ rule }) => rule === "scan")!;
    assert.match(scan.remedy.pattern, /^inter-partition/);
    assert.match(costAfter(scan)!, /1 more row, in another partition/);
    const code = codeOf(scan)!;
    assert.match(code, /entity\("People"/);
    assert.match(code, /remoteIndex\(\{ partition: \[k\.str\("Email"\)\]/);
    assert.equal((await adviseOn("", "a", async () => undefined)).advice.events, 0);
  });

  it("draws the keys of a layout, and leaves other lines as they are", () => {
    assert.deepEqual(
      drawnLayout("PeopleByEmail: PartitionKey = <Email>, RowKey = <RowKey> of People"),
      {
        table: "PeopleByEmail",
        partitionKey: "<Email>",
        rowKey: "<RowKey> of People",
      },
    );
    assert.equal(drawnLayout("T: PartitionKey unchanged, RowKey = x")!.partitionKey, "unchanged");
    assert.equal(drawnLayout("query: all of People"), undefined);
  });
});
