import assert from "node:assert/strict";
import { after, describe, it } from "node:test";
import { assertRefused } from "./refusals.ts";
import { WireTarget } from "./table-target.ts";

const target = await WireTarget.open();
after(() => target.close());
const { wire } = target;

const NOMETADATA = { Accept: "application/json;odata=nometadata" };

describe("A request that matches no operation", () => {
  const allowed: readonly (readonly [string, string, string])[] = [
    ["PUT", "/Tables", "GET, POST"],
    ["PATCH", "/Tables('People')", "GET, DELETE"],
    ["PUT", "/People", "GET, POST"],
    ["DELETE", "/People", "GET, POST"],
    ["POST", "/People(PartitionKey='p',RowKey='r')", "GET, PUT, MERGE, DELETE"],
    ["HEAD", "/People(PartitionKey='p',RowKey='r')", "GET, PUT, MERGE, DELETE"],
    ["GET", "/$batch", "POST"],
    ["DELETE", "/People?comp=acl", "GET, PUT"],
    ["POST", "/?restype=service&comp=properties", "GET, PUT"],
  ];
  for (const [method, path, methods] of allowed) {
    it(`${method} ${path} is answered with 405 and the allowed methods`, async () => {
      const answer = await wire.send(method, path, { body: method === "HEAD" ? undefined : "{}" });
      assert.equal(answer.status, 405);
      assert.equal(answer.header("x-ms-error-code"), "MethodNotAllowed");
      assert.deepEqual(answer.header("allow")!.split(", ").sort(), methods.split(", ").sort());
    });
  }

  const unsupported = [
    "$orderby=RowKey",
    "$skip=1",
    "$inlinecount=allpages",
    "$expand=a",
    "$skiptoken=a",
    "$count=true",
  ];
  for (const option of unsupported) {
    it(`${option} is answered with 501`, async () => {
      const name = await target.table();
      assertRefused(await wire.send("GET", `/${name}?${option}`), {
        status: 501,
        code: "NotImplemented",
        message: "The requested operation is not implemented on the specified resource.",
      });
    });
  }

  it("a segment after a table is answered with 501, and more than one with 400", async () => {
    for (const [path, status, code] of [
      ["/People/$count", 501, "NotImplemented"],
      ["/People(PartitionKey='p',RowKey='r')/$links", 501, "NotImplemented"],
      ["/People/more", 501, "NotImplemented"],
      ["/People/more/segments", 400, "InvalidUri"],
    ] as const) {
      assertRefused(await wire.send("GET", path), { status, code }, "json");
    }
  });

  it("an unknown comp is answered with 400", async () => {
    assertRefused(await wire.send("GET", "/People?comp=magic"), {
      status: 400,
      code: "InvalidQueryParameterValue",
    });
  });

  it("except for the service document and $metadata, which describe the service", async () => {
    assert.deepEqual((await wire.send("GET", "/", { headers: NOMETADATA })).json(), {
      value: [{ name: "Tables", url: "Tables" }],
    });
    assert.match(
      (await wire.send("GET", "/$metadata")).text,
      /<PropertyRef Name="PartitionKey" \/>/,
    );
  });
});
