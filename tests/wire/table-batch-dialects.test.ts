import assert from "node:assert/strict";
import { after, describe, it } from "node:test";
import type { HttpAnswer } from "./http-answer.ts";
import { BATCH_TYPE, readBatch, rowsOf, sendBatch } from "./table-batch.ts";
import { WireTarget } from "./table-target.ts";

const target = await WireTarget.open();
after(() => target.close());
const { wire } = target;
const table = await target.table();

let partitions = 0;
/** A new partition. */
const fresh = () => `p${partitions++}`;

describe("A batch", () => {
  const base = () => target.url;
  const dialects: Record<string, (p: string) => { type?: string; body: string }> = {
    "JavaScript, @azure/data-tables": (p) => ({
      type: "multipart/mixed; boundary=batch_f",
      body:
        "--batch_f\r\ncontent-type: multipart/mixed; boundary=changeset_f\r\n\r\n\r\n" +
        "--changeset_f\r\ncontent-type: application/http\r\ncontent-transfer-encoding: binary\r\n\r\n" +
        `POST ${base()}/${table} HTTP/1.1\r\ncontent-type: application/json\r\naccept: application/json;odata=nometadata\r\nprefer: return-no-content\r\ndataserviceversion: 3.0\r\n\r\n\r\n{"PartitionKey":"${p}","RowKey":"1"}\r\n` +
        "--changeset_f\r\ncontent-type: application/http\r\ncontent-transfer-encoding: binary\r\n\r\n" +
        `PATCH ${base()}/${table}(PartitionKey='${p}',RowKey='2') HTTP/1.1\r\ncontent-type: application/json\r\n\r\n\r\n{"PartitionKey":"${p}","RowKey":"2"}\r\n` +
        "--changeset_f\r\ncontent-type: application/http\r\ncontent-transfer-encoding: binary\r\n\r\n" +
        `DELETE ${base()}/${table}(PartitionKey='${p}',RowKey='gone') HTTP/1.1\r\nif-match: *\r\n\r\n\r\n\r\n` +
        "--changeset_f--\r\n--batch_f",
    }),
    ".NET, Azure.Data.Tables": (p) => ({
      body:
        "--batch_1\r\nContent-Type: multipart/mixed; boundary=changeset_1\r\n\r\n" +
        [1, 2]
          .map(
            (row) =>
              "--changeset_1\r\nContent-Type: application/http\r\nContent-Transfer-Encoding: binary\r\n\r\n" +
              `POST ${base()}/${table}?$format=application%2Fjson%3Bodata%3Dminimalmetadata HTTP/1.1\r\nHost: 127.0.0.1:1\r\nx-ms-version: 2019-02-02\r\nDataServiceVersion: 3.0\r\nPrefer: return-no-content\r\nAccept: application/json\r\nContent-Type: application/json; odata=nometadata\r\n\r\n{"PartitionKey":"${p}","RowKey":"${row}"}\r\n`,
          )
          .join("") +
        "--changeset_1\r\nContent-Type: application/http\r\nContent-Transfer-Encoding: binary\r\n\r\n" +
        `DELETE ${base()}/${table}(PartitionKey='${p}',RowKey='gone') HTTP/1.1\r\nHost: 127.0.0.1:1\r\nIf-Match: *\r\n\r\n\r\n` +
        "--changeset_1--\r\n\r\n--batch_1--\r\n",
    }),
    "Python, azure-data-tables": (p) => ({
      body:
        "--batch_1\r\nContent-Type: multipart/mixed; boundary=changeset_1\r\n\r\n" +
        [1, 2]
          .map(
            (row) =>
              `--changeset_1\r\nContent-Type: application/http\r\nContent-Transfer-Encoding: binary\r\nContent-ID: ${row}\r\n\r\n` +
              `PATCH ${base()}/${table}(PartitionKey='${p}',RowKey='${row}') HTTP/1.1\r\nx-ms-version: 2019-02-02\r\nDataServiceVersion: 3.0\r\nContent-Type: application/json\r\nAccept: application/json\r\nContent-Length: 9999\r\nx-ms-date: Wed, 06 Jan 2021 01:01:30 GMT\r\nDate: Wed, 06 Jan 2021 01:01:30 GMT\r\n\r\n{"PartitionKey": "${p}", "RowKey": "${row}"}\r\n`,
          )
          .join("") +
        `--changeset_1\r\nContent-Type: application/http\r\nContent-Transfer-Encoding: binary\r\nContent-ID: 3\r\n\r\nDELETE ${base()}/${table}(PartitionKey='${p}',RowKey='gone') HTTP/1.1\r\nIf-Match: *\r\n\r\n\r\n` +
        "--changeset_1--\r\n\r\n--batch_1--\r\n",
    }),
    "old Python and Node, relative addresses and LF": (p) => ({
      type: 'multipart/mixed; boundary="batch_1"',
      body:
        "--batch_1\nContent-Type: multipart/mixed; boundary=changeset_1\n\n" +
        [1, 2]
          .map(
            (row) =>
              "--changeset_1\nContent-Type: application/http\nContent-Transfer-Encoding: binary\n\n" +
              `PUT /${table}(PartitionKey='${p}',RowKey='${row}') HTTP/1.1\nContent-ID: ${row}\nContent-Type: application/json\nContent-Length: 2\n\n{"PartitionKey":"${p}","RowKey":"${row}"}\n`,
          )
          .join("") +
        `--changeset_1\nContent-Type: application/http\nContent-Transfer-Encoding: binary\n\nDELETE /${table}(PartitionKey='${p}', RowKey='gone') HTTP/1.1\nIf-Match: *\nContent-ID: 3\n\n` +
        "--changeset_1--\n--batch_1--",
    }),
    "old .NET, Cosmos.Table": (p) => ({
      body:
        "--batch_1\r\nContent-Type: multipart/mixed; boundary=changeset_1\r\n\r\n" +
        [1, 2]
          .map(
            (row) =>
              "--changeset_1\r\nContent-Type: application/http\r\nContent-Transfer-Encoding: binary\r\n\r\n" +
              `MERGE ${base()}/${table}(PartitionKey='${p}',RowKey='${row}') HTTP/1.1\r\nAccept: application/json;odata=minimalmetadata\r\nContent-Type: application/json\r\nAccept-Charset: UTF-8\r\nContent-ID: ${row}\r\nDataServiceVersion: 3.0;\r\n\r\n{"PartitionKey":"${p}","RowKey":"${row}"}\r\n`,
          )
          .join("") +
        `--changeset_1\r\nContent-Type: application/http\r\n\r\nPOST ${base()}/${table}(PartitionKey='${p}',RowKey='gone') HTTP/1.1\r\nX-HTTP-Method: DELETE\r\nIf-Match: *\r\n\r\n` +
        "--changeset_1--\r\n--batch_1--\r\nepilogue",
    }),
    "the documentation, addresses without a root": (p) => ({
      body:
        "preamble\r\n--batch_1\r\nContent-Type: multipart/mixed; boundary=changeset_1\r\n\r\n" +
        [1, 2]
          .map(
            (row) =>
              "--changeset_1\r\nContent-Type: application/http\r\nContent-Transfer-Encoding: binary\r\n\r\n" +
              `PUT ${table}(PartitionKey='${p}', RowKey='${row}') HTTP/1.1\r\nContent-Type: application/json\r\n\r\n{"PartitionKey":"${p}","RowKey":"${row}"}\r\n\r\n`,
          )
          .join("") +
        `--changeset_1\r\nContent-Type: application/http\r\n\r\nDELETE http://elsewhere.table.example.com/${table}(PartitionKey='${p}', RowKey='gone') HTTP/1.1\r\nIf-Match: *\r\n\r\n--changeset_1\r\n--batch_1\r\n`,
    }),
  };
  for (const [client, draw] of Object.entries(dialects)) {
    it(`in the dialect of ${client} is accepted`, async () => {
      const p = fresh();
      await target.insert(table, { PartitionKey: p, RowKey: "gone" });
      const { type = BATCH_TYPE, body } = draw(p);
      const answer = await sendBatch(wire, body, { headers: { "Content-Type": type } });
      assert.deepEqual(
        readBatch(answer).map(({ status }) => status),
        [204, 204, 204],
        String(answer),
      );
      assert.deepEqual(Object.keys(await rowsOf(wire, table, p)), ["1", "2"]);
    });
  }

  it("echoes the Content-ID of a request, and not that of the part around it", async () => {
    const within = "Content-Type: application/http\r\nContent-ID: outside\r\n\r\n";
    const send = (header: string): Promise<HttpAnswer> =>
      sendBatch(
        wire,
        `--batch_1\r\nContent-Type: multipart/mixed; boundary=changeset_1\r\n\r\n--changeset_1\r\n${within}` +
          `PUT /${table}(PartitionKey='p',RowKey='r') HTTP/1.1\r\n${header}\r\n{}\r\n--changeset_1--\r\n--batch_1--\r\n`,
      );
    assert.equal(readBatch(await send(""))[0]!.headers["Content-ID"], undefined);
    assert.equal(
      readBatch(await send("content-id: inside\r\n"))[0]!.headers["Content-ID"],
      "inside",
    );
  });
});
