import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import { AzureSASCredential, TableServiceClient } from "@azure/data-tables";
import { PortError } from "@rowhouse/patterns";
import { azureTables } from "@rowhouse/patterns/azure-tables";
import { type EdmValue, text } from "../../patterns/src/ports/edm.ts";
import { ACCOUNT, insert, JSON_TYPE, key, StandIn } from "./stand-in.ts";

let standIn: StandIn;
before(async () => {
  standIn = await StandIn.start();
});
after(() => standIn.close());

describe("the official clients as ports", () => {
  it("return every type as it was stored, whatever the service annotates", async () => {
    const wire = {
      "odata.metadata": "x",
      "odata.etag": 'W/"1"',
      PartitionKey: "p",
      RowKey: "r",
      "Timestamp@odata.type": "Edm.DateTime",
      Timestamp: "2026-11-22T10:00:00Z",
      text: "it's",
      annotatedText: "x",
      "annotatedText@odata.type": "Edm.String",
      constructor: "not Object's",
      small: -5,
      "annotatedSmall@odata.type": "Edm.Int32",
      annotatedSmall: 5,
      largest: 2_147_483_647,
      beyond: 2_147_483_648,
      half: 1.5,
      "whole@odata.type": "Edm.Double",
      whole: 2,
      wholeAsText: "3.0",
      "wholeAsText@odata.type": "Edm.Double",
      "infinite@odata.type": "Edm.Double",
      infinite: "-Infinity",
      "none@odata.type": "Edm.Double",
      none: "NaN",
      yes: true,
      "big@odata.type": "Edm.Int64",
      big: "9223372036854775807",
      "bigAsNumber@odata.type": "Edm.Int64",
      bigAsNumber: 7,
      "at@odata.type": "Edm.DateTime",
      at: "2014-07-31T18:00:00.1234567Z",
      id: "c9da6455-213d-42c9-9a79-3e9149a57833",
      "id@odata.type": "Edm.Guid",
      "bytes@odata.type": "Edm.Binary",
      bytes: "AAEC/w==",
      absent: null,
    };
    const expected: Record<string, EdmValue> = {
      text: { type: "String", value: "it's" },
      annotatedText: { type: "String", value: "x" },
      constructor: text("not Object's"),
      small: { type: "Int32", value: -5 },
      annotatedSmall: { type: "Int32", value: 5 },
      largest: { type: "Int32", value: 2_147_483_647 },
      beyond: { type: "Double", value: 2_147_483_648 },
      half: { type: "Double", value: 1.5 },
      whole: { type: "Double", value: 2 },
      wholeAsText: { type: "Double", value: 3 },
      infinite: { type: "Double", value: "-Infinity" },
      none: { type: "Double", value: "NaN" },
      yes: { type: "Boolean", value: true },
      big: { type: "Int64", value: "9223372036854775807" },
      bigAsNumber: { type: "Int64", value: "7" },
      at: { type: "DateTime", value: "2014-07-31T18:00:00.1234567Z" },
      id: { type: "Guid", value: "c9da6455-213d-42c9-9a79-3e9149a57833" },
      bytes: { type: "Binary", value: "AAEC/w==" },
    };
    const stored = {
      ...key,
      etag: 'W/"1"',
      timestamp: "2026-11-22T10:00:00Z",
      servedAtMs: Date.parse("2026-11-22T10:00:00Z"),
      properties: expected,
    };
    const headers = { "content-type": JSON_TYPE };
    standIn.answer = { status: 200, headers, body: JSON.stringify(wire) };
    assert.deepEqual(await standIn.tables().get("T", key), stored);
    standIn.answer = { status: 200, headers, body: JSON.stringify({ value: [wire, wire] }) };
    assert.deepEqual((await standIn.tables().query("T", {})).entities, [stored, stored]);
  });

  it("return the continuation of an empty page", async () => {
    const headers = {
      "content-type": JSON_TYPE,
      "x-ms-continuation-nextpartitionkey": "1!4!cA--",
    };
    standIn.answer = { status: 200, headers, body: JSON.stringify({ value: [] }) };
    const page = await standIn.tables().query("T", {});
    assert.deepEqual(page, { entities: [], continuation: { partitionKey: "1!4!cA--" } });
  });

  it("send a transaction correctly, even if the URL ends with a token", async () => {
    const part = 'HTTP/1.1 204 No Content\r\nETag: W/"1"\r\n\r\n';
    const headers = { "content-type": "multipart/mixed; boundary=batchresponse_1" };
    const parts = `--changesetresponse_1\r\n\r\n${part}\r\n`.repeat(2);
    standIn.answer = { status: 202, headers, body: `${parts}--changesetresponse_1--\r\n` };
    for (const [base, query] of [
      [standIn.url, "?timeout=7"],
      [`${standIn.url}/`, "?timeout=7"],
      [`${standIn.url}?sv=2019&sig=a/b`, "?sv=2019&sig=a/b&timeout=7"],
    ]) {
      const service = new TableServiceClient(`${base}`, { allowInsecureConnection: true });
      const port = azureTables(service);
      const deletion = { kind: "delete", partitionKey: "p", rowKey: "b", ifMatch: "*" } as const;
      const etags = await port.commit("T", [insert("a"), deletion], { timeoutS: 7 });
      assert.deepEqual(etags, ['W/"1"', undefined]);
      const {
        accept,
        prefer,
        "content-type": type,
        "x-ms-client-request-id": id,
      } = standIn.last.headers;
      assert.deepEqual(
        [standIn.last.method, standIn.last.url],
        ["POST", `/${ACCOUNT}/$batch${query}`],
      );
      assert.deepEqual([accept, prefer], ["application/json", undefined]);
      const { dataserviceversion, maxdataserviceversion } = standIn.last.headers;
      assert.deepEqual([dataserviceversion, maxdataserviceversion], ["3.0;", "3.0;NetFx"]);
      assert.equal(type, `multipart/mixed; boundary=batch_${id}`);
      assert.ok(!("rowhouse-timeout" in standIn.last.headers));
    }
  });

  it("send the time limit of a single write in its URL alone", async () => {
    standIn.answer = { status: 204, headers: { etag: 'W/"1"' }, body: "" };
    const properties = { a: text("b") };
    const plain = { allowInsecureConnection: true };
    const token = new AzureSASCredential("sv=2019&sig=a/b");
    const ports = [
      standIn.tables(),
      azureTables(new TableServiceClient(`${standIn.url}?sv=2019&sig=a/b`, plain)),
      azureTables(new TableServiceClient(`${standIn.url}`, token, plain)),
      azureTables(new TableServiceClient(`${standIn.url}`, plain), { profile: "cosmos" }),
    ];
    for (const mutation of [
      insert("a"),
      { kind: "insertOrMerge", ...key, properties },
      { kind: "insertOrReplace", ...key, properties },
      { kind: "merge", ...key, properties, ifMatch: "*" },
      { kind: "replace", ...key, properties, ifMatch: "*" },
      { kind: "delete", ...key, ifMatch: "*" },
    ] as const) {
      for (const port of ports) {
        await port.commit("T", [mutation], { timeoutS: 7 });
        const { searchParams } = new URL(standIn.last.url ?? "", "http://host");
        assert.deepEqual(searchParams.getAll("timeout"), ["7"]);
        assert.ok(["a/b", null].includes(searchParams.get("sig")));
        const names = Object.keys(standIn.last.headers);
        assert.deepEqual(
          names.filter((name) => /timeout/.test(name)),
          [],
        );
        await port.commit("T", [mutation]);
        assert.doesNotMatch(standIn.last.url ?? "", /timeout/);
      }
    }
  });

  it("treat a transaction with missing answers as unanswered", async () => {
    const headers = { "content-type": "multipart/mixed; boundary=batchresponse_1" };
    const part = '--changesetresponse_1\r\n\r\nHTTP/1.1 204 No Content\r\nETag: W/"1"\r\n\r\n\r\n';
    // One answer missing, none readable, and a truncated second one.
    for (const body of [
      `${part}--changesetresponse_1--`,
      "--changesetresponse_1\r\n\r\nHTTP/1.1 \r\n--changesetresponse_1--",
      `${part}${part.slice(0, -12)}`,
    ]) {
      standIn.answer = { status: 202, headers, body };
      await assert.rejects(
        standIn.tables().commit("T", [insert("a"), insert("b")]),
        (error) => error instanceof PortError && error.status === 0,
        body,
      );
    }
  });

  it("report the index of the mutation that made a transaction fail", async () => {
    const part = JSON.stringify({
      "odata.error": {
        code: "EntityAlreadyExists",
        message: { lang: "en-US", value: "12:The specified entity already exists." },
      },
    });
    const lines = [
      "--batchresponse_1",
      "Content-Type: multipart/mixed; boundary=changesetresponse_1",
      "",
      "--changesetresponse_1",
      "Content-Type: application/http",
      "Content-Transfer-Encoding: binary",
      "",
      "HTTP/1.1 409 Conflict",
      "Content-Type: application/json;odata=minimalmetadata;streaming=true;charset=utf-8",
      "",
      part,
      "--changesetresponse_1--",
      "--batchresponse_1--",
      "",
    ];
    standIn.answer = {
      status: 202,
      headers: { "content-type": "multipart/mixed; boundary=batchresponse_1" },
      body: lines.join("\r\n"),
    };
    await assert.rejects(standIn.tables().commit("T", [insert("a"), insert("b")]), (error) => {
      assert.ok(error instanceof PortError, String(error));
      assert.deepEqual([error.status, error.code, error.index], [409, "EntityAlreadyExists", 12]);
      return true;
    });
  });
});
