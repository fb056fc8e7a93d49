import assert from "node:assert/strict";
import { after, describe, it } from "node:test";
import { assertRefused } from "./refusals.ts";
import { ANY, EntityRequests } from "./table-entity-requests.ts";
import { WireTarget } from "./table-target.ts";

const target = await WireTarget.open();
after(() => target.close());
const { wire } = target;
const table = await target.table();
const requests = new EntityRequests(wire, table);

describe("Accept", () => {
  const levels: Record<string, string | undefined> = {
    "application/json": "minimalmetadata",
    "application/json; odata=nometadata": "nometadata",
    'application/json;odata="fullmetadata"': "fullmetadata",
    "Application/JSON;OData=FullMetadata": "fullmetadata",
    "application/json;odata=minimalmetadata, */*;q=0.1": "minimalmetadata",
    "application/atom+xml,application/json;odata=nometadata": "nometadata",
    "*/*": "minimalmetadata",
  };
  for (const [accept, expected] of Object.entries(levels)) {
    it(`"${accept}" is answered with ${expected}`, async () => {
      const answer = await wire.send("GET", `/${table}`, { headers: { Accept: accept } });
      assert.equal(answer.status, 200);
      assert.match(answer.header("content-type")!, new RegExp(`;odata=${expected};`));
    });
  }

  it("is overridden by $format", async () => {
    const format = "$format=application%2Fjson%3Bodata%3Dnometadata";
    const answer = await wire.send("GET", `/${table}?${format}`);
    assert.match(answer.header("content-type")!, /odata=nometadata/);
    const keys = requests.fresh();
    const inserted = await wire.send(
      "POST",
      `/${table}?%24format=application%2Fjson%3Bodata%3Dfullmetadata`,
      { body: keys },
    );
    assert.match(inserted.text, /"odata.editLink"/);
  });

  it("may be absent, and Atom is refused in XML", async () => {
    assert.equal(
      (await wire.send("GET", `/${table}`, { headers: { Accept: undefined } })).status,
      200,
    );
    assertRefused(
      await wire.send("GET", `/${table}`, { headers: { Accept: "application/atom+xml" } }),
      { status: 415, code: "AtomFormatNotSupported", message: "Atom format is not supported." },
      "xml",
    );
  });

  it("is checked before anything is written", async () => {
    const keys = requests.fresh();
    assertRefused(await requests.insert(keys, { Accept: "text/html" }), {
      status: 415,
      code: "MediaTypeNotSupported",
      message: "None of the provided media types are supported",
    });
    assert.equal((await wire.send("GET", requests.at(keys))).status, 404);
  });

  it("is ignored if the answer has no body", async () => {
    const keys = requests.fresh();
    for (const Accept of [undefined, "*/*", "application/atom+xml"]) {
      assert.equal(
        (await wire.send("PUT", requests.at(keys), { body: {}, headers: { Accept } })).status,
        204,
      );
      assert.equal(
        (await wire.send("DELETE", requests.at(keys), { headers: { Accept, ...ANY } })).status,
        204,
      );
    }
  });

  it("offers JSON only from data service version 3.0 and protocol version 2013-08-15 on", async () => {
    const refusal = { status: 415, code: "JsonFormatNotSupported" };
    for (const headers of [
      { DataServiceVersion: "2.0" },
      { DataServiceVersion: "3.0", MaxDataServiceVersion: "1.0" },
      { "x-ms-version": "2012-02-12" },
      { "x-ms-version": undefined },
    ]) {
      assertRefused(await wire.send("GET", `/${table}`, { headers }), refusal);
    }
    for (const headers of [
      { DataServiceVersion: "1.0", MaxDataServiceVersion: "3.0;NetFx" },
      { DataServiceVersion: undefined },
      { DataServiceVersion: "3.0;" },
    ]) {
      assert.equal((await wire.send("GET", `/${table}`, { headers })).status, 200);
    }
  });
});
