import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import { Accounts } from "@rowhouse/server/auth/accounts";
import type { HttpAnswer } from "./http-answer.ts";
import { type LocalServer, startLocalServer } from "./local-server.ts";
import { assertRefused, type Refusal } from "./refusals.ts";
import { accountSas, inMinutes, type SasFields, tableSas } from "./table-sas.ts";
import { type Call, hmac, TableWire } from "./table-wire.ts";

const KEYS = ["Zmlyc3Qga2V5", "c2Vjb25kIGtleQ=="] as const;
const FAILED: Refusal = {
  status: 403,
  code: "AuthenticationFailed",
  message:
    "Server failed to authenticate the request. Make sure the value of Authorization header is formed correctly including the signature.",
};

let server: LocalServer;
let target: { url: string; account: string; key: string };
let wire: TableWire;
before(async () => {
  const keys = KEYS.map((key) => Buffer.from(key, "base64"));
  server = await startLocalServer({
    accounts: new Accounts([
      { name: "rowhouse", keys },
      { name: "another", keys },
    ]),
  });
  target = { url: `${server.url}/rowhouse`, account: "rowhouse", key: KEYS[0] };
  wire = new TableWire(target);
  await wire.send("POST", "/Tables", { body: { TableName: "People" } });
});
after(async () => {
  wire.close();
  await server.close();
});

describe("A shared key", () => {
  it("signs in either scheme, whether it is the first or the second key", async () => {
    for (const key of KEYS) {
      for (const kind of ["shared-key", "shared-key-lite"] as const) {
        const as = { kind, key };
        assert.equal((await wire.send("GET", "/Tables", { as })).status, 200);
        assert.equal((await wire.send("GET", "/People?comp=acl", { as })).status, 200);
        assert.equal(
          (
            await wire.send("PUT", "/People(PartitionKey='O''B%20%C3%A9',RowKey='r')?timeout=5", {
              as,
              body: {},
            })
          ).status,
          204,
        );
      }
    }
    assertRefused(
      await wire.send("GET", "/Tables", { as: { kind: "shared-key", key: "AAAA" } }),
      FAILED,
    );
  });

  it("signs x-ms-date, or Date if x-ms-date is absent", async () => {
    const now = new Date().toUTCString();
    const old = new Date(0).toUTCString();
    const send = (headers: Record<string, string | undefined>) =>
      wire.send("GET", "/Tables", { headers });
    assert.equal((await send({ "x-ms-date": undefined, Date: now })).status, 200);
    assert.equal((await send({ "x-ms-date": now, Date: old })).status, 200);
    assertRefused(await send({ "x-ms-date": old, Date: now }), FAILED);
    assertRefused(await send({ "x-ms-date": undefined }), FAILED);
    assertRefused(await send({ "x-ms-date": "today" }), FAILED);
  });

  it("signs a request for a quarter of an hour", async () => {
    for (const [minutes, status] of [
      [-14, 200],
      [14, 200],
      [-16, 403],
      [16, 403],
    ] as const) {
      const date = new Date(Date.now() + minutes * 60_000).toUTCString();
      const answer = await wire.send("GET", "/Tables", { headers: { "x-ms-date": date } });
      assert.equal(answer.status, status, `${minutes} minutes`);
    }
  });

  it("signs the path as sent, the verb on the wire and, of the query, only comp", async () => {
    const date = new Date().toUTCString();
    const signed = (verb: string, resource: string) => {
      const text = `${verb}\n\n\n${date}\n/rowhouse${resource}`;
      return { "x-ms-date": date, Authorization: `SharedKey rowhouse:${hmac(KEYS[0], text)}` };
    };
    const path = "/People(PartitionKey='a%20b',RowKey='%C3%A9')";
    const get = (resource: string, to = path) =>
      wire.send("GET", to, { headers: signed("GET", resource) });
    assert.equal((await get(`/rowhouse${path}`)).status, 404);
    assertRefused(await get("/rowhouse/People(PartitionKey='a b',RowKey='é')"), FAILED);
    assertRefused(await get(path), FAILED);
    assertRefused(await get(`/rowhouse${path}?$select=a`, `${path}?$select=a`), FAILED);
    assert.equal((await get("/rowhouse/People?comp=acl", "/People?comp=acl")).status, 200);
    assertRefused(await get("/rowhouse/People", "/People?comp=acl"), FAILED);
    const tunnelled = { "X-HTTP-Method": "MERGE", "Content-Type": undefined };
    for (const [verb, status] of [
      ["POST", 204],
      ["MERGE", 403],
    ] as const) {
      const headers = { ...signed(verb, `/rowhouse${path}`), ...tunnelled };
      assert.equal((await wire.send("POST", path, { body: {}, headers })).status, status);
    }
  });

  it("is refused for another account's name or address", async () => {
    const elsewhere = new TableWire({ ...target, url: `${server.url}/another` });
    assertRefused(await elsewhere.send("GET", "/Tables"), FAILED);
    elsewhere.close();
    const stranger = new TableWire({ ...target, account: "nobody" });
    assertRefused(await stranger.send("GET", "/Tables"), FAILED);
    stranger.close();
  });

  const malformed: Record<string, Refusal> = {
    Nonsense: { status: 400, code: "InvalidAuthenticationInfo" },
    "": { status: 400, code: "InvalidAuthenticationInfo" },
    "Basic cm93OmhvdXNl": { status: 400, code: "InvalidAuthenticationInfo" },
    "SharedKey rowhouse": { status: 400, code: "InvalidAuthenticationInfo" },
    "SharedKey rowhouse:": FAILED,
    "SharedKey rowhouse:%%%": FAILED,
    "SharedKeyLite :AAAA": FAILED,
    [`SharedKey rowhouse:${"A".repeat(10_000)}`]: FAILED,
  };
  for (const [authorization, refusal] of Object.entries(malformed)) {
    it(`is refused in the form "${authorization.slice(0, 30)}"`, async () => {
      for (const [Accept, form] of [
        ["application/json", "json"],
        ["*/*", "xml"],
      ] as const) {
        const headers = { Authorization: authorization, Accept };
        assertRefused(await wire.send("GET", "/Tables", { headers }), refusal, form);
      }
    });
  }

  it("takes precedence over a SAS in the same request", async () => {
    const answer = await wire.send("GET", `/People?${tableSas(target, "People", { sp: "d" })}`);
    assert.equal(answer.status, 200);
  });
});

describe("A table SAS", () => {
  it("may be signed by either key, for the table in any case", async () => {
    for (const key of KEYS) {
      for (const tn of ["People", "PEOPLE", "people"]) {
        const answer = await wire.send("GET", "/pEOPLE", sas(tableSas({ ...target, key }, tn)));
        assert.equal(answer.status, 200);
      }
    }
    assertRefused(
      await wire.send("GET", "/People", sas(tableSas({ ...target, key: "AAAA" }, "People"))),
      FAILED,
    );
  });

  it("is valid for one table only", async () => {
    await wire.send("POST", "/Tables", { body: { TableName: "Others" } });
    assertRefused(await wire.send("GET", "/Others", sas(tableSas(target, "People"))), FAILED);
    const elsewhere = new TableWire({ ...target, url: `${server.url}/another` });
    assertRefused(await elsewhere.send("GET", "/People", sas(tableSas(target, "People"))), FAILED);
    elsewhere.close();
  });

  it("is refused if a signed field was changed", async () => {
    const token = tableSas(target, "People", { sp: "r", spk: "a", epk: "b" });
    for (const [from, to] of [
      ["sp=r", "sp=raud"],
      ["epk=b", "epk=z"],
      ["&epk=b", ""],
      ["spk=a", "spk=A"],
      ["sv=2019-02-02", "sv=2018-11-09"],
      [/se=\d+/, "se=2999"],
    ] as const) {
      assertRefused(await wire.send("GET", "/People", sas(token.replace(from, to))), FAILED);
    }
    assert.equal((await wire.send("GET", "/People", sas(token))).status, 200);
  });

  it("is valid only between its times and with all required fields", async () => {
    for (const [fields, good] of [
      [{ st: inMinutes(-5), se: inMinutes(5) }, true],
      [{ st: "2020-01-01", se: "2999-01-01" }, true],
      [{ st: "2020-01-01T00:00Z", se: "2999-01-01T00:00:00.1234567Z" }, true],
      [{ st: inMinutes(5), se: inMinutes(9) }, false],
      [{ se: inMinutes(-1) }, false],
      [{ se: "tomorrow" }, false],
      [{ st: "yesterday" }, false],
      [{ se: undefined }, false],
      [{ sp: undefined }, false],
      [{ sv: undefined }, false],
      [{ sv: "2011-08-18" }, false],
      [{ sv: "latest" }, false],
      [{ srk: "r" }, false],
      [{ erk: "r" }, false],
    ] as const) {
      const answer = await wire.send("GET", "/People", sas(tableSas(target, "People", fields)));
      if (good) assert.equal(answer.status, 200, JSON.stringify(fields));
      else assertRefused(answer, FAILED);
    }
  });

  it("of an older version is signed by that version's rules, and denies with 404", async () => {
    const se = inMinutes(5);
    for (const [sv, resource] of [
      ["2012-02-12", "/rowhouse/people"],
      ["2013-08-15", "/rowhouse/people"],
      ["2015-02-21", "/table/rowhouse/people"],
    ] as const) {
      const text = ["r", "", se, resource, "", sv, "", "", "", ""].join("\n");
      const token = `sp=r&se=${se}&sv=${sv}&tn=people&sig=${encodeURIComponent(hmac(KEYS[0], text))}`;
      const headers = { "x-ms-version": "2019-02-02" };
      assert.equal((await wire.send("GET", "/People", { ...sas(token), headers })).status, 200);
      assertRefused(
        await wire.send("POST", "/People", {
          ...sas(token),
          body: { PartitionKey: "p", RowKey: "r" },
        }),
        {
          status: 404,
          code: "ResourceNotFound",
        },
      );
    }
  });

  it("is bound to addresses and protocols", async () => {
    for (const [fields, code] of [
      [{ sip: "127.0.0.1" }, undefined],
      [{ sip: "127.0.0.0-127.0.0.9" }, undefined],
      [{ spr: "https,http" }, undefined],
      [{ sip: "127.0.0.2-127.0.0.9" }, "AuthorizationSourceIPMismatch"],
      [{ spr: "https" }, "AuthorizationProtocolMismatch"],
    ] as const) {
      const answer = await wire.send("GET", "/People", sas(tableSas(target, "People", fields)));
      if (code) assertRefused(answer, { status: 403, code });
      else assert.equal(answer.status, 200);
    }
    for (const fields of [{ sip: "localhost" }, { sip: "1.2.3.4-" }, { spr: "gopher" }]) {
      assertRefused(
        await wire.send("GET", "/People", sas(tableSas(target, "People", fields))),
        FAILED,
      );
    }
  });

  it("determines the version of a request without x-ms-version", async () => {
    const token = tableSas(target, "People", { sv: "2018-03-28" });
    const plain = await wire.send("GET", "/People", sas(token));
    assert.equal(plain.header("x-ms-version"), "2018-03-28");
    const asked = await wire.send("GET", "/People?api-version=2020-02-10", sas(token));
    assert.equal(asked.header("x-ms-version"), "2020-02-10");
  });
});

describe("A table SAS with a key range", () => {
  const partitions = ["a", "b", "c"];
  const rows = ["1", "2", "3"];
  const ranges: readonly SasFields[] = [
    { spk: "b" },
    { epk: "b" },
    { spk: "b", epk: "b" },
    { spk: "a", srk: "2" },
    { epk: "b", erk: "2" },
    { spk: "a", srk: "3", epk: "c", erk: "1" },
    { spk: "b", srk: "2", epk: "b", erk: "2" },
    { spk: "c", epk: "a" },
    { spk: "", srk: "2" },
  ];
  before(async () => {
    await wire.send("POST", "/Tables", { body: { TableName: "Ranged" } });
    for (const PartitionKey of partitions)
      for (const RowKey of rows)
        await wire.send("POST", "/Ranged", { body: { PartitionKey, RowKey } });
  });

  for (const range of ranges) {
    it(`${JSON.stringify(range)} bounds reads, queries, pages and writes alike`, async () => {
      const inside = (p: string, r: string) =>
        (range.spk === undefined || p > range.spk || (p === range.spk && r >= (range.srk ?? ""))) &&
        (range.epk === undefined ||
          p < range.epk ||
          (p === range.epk && (range.erk === undefined || r <= range.erk)));
      const as = sas(tableSas(target, "Ranged", range));
      const all = partitions.flatMap((p) => rows.map((r) => [p, r] as const));
      const visible = all.filter(([p, r]) => inside(p, r)).map(([p, r]) => p + r);
      assert.deepEqual(keysOf(await wire.send("GET", "/Ranged", as)), visible);
      const filtered = await wire.send(
        "GET",
        "/Ranged?$filter=RowKey%20ge%20'2'%20or%20PartitionKey%20eq%20'b'",
        as,
      );
      assert.deepEqual(
        keysOf(filtered),
        visible.filter((key) => key[1]! >= "2" || key[0] === "b"),
      );
      assert.deepEqual(await pagesOf(as), visible);
      for (const [p, r] of all) {
        const address = `/Ranged(PartitionKey='${p}',RowKey='${r}')`;
        const read = await wire.send("GET", address, as);
        assert.equal(read.status, inside(p, r) ? 200 : 404, p + r);
        for (const [method, headers] of [
          ["PUT", {}],
          ["MERGE", { "If-Match": "*" }],
        ] as const) {
          const written = await wire.send(method, address, { ...as, headers, body: {} });
          if (inside(p, r)) assert.equal(written.status, 204);
          else assertRefused(written, OUTSIDE);
        }
        const removed = await wire.send("DELETE", address, { ...as, headers: { "If-Match": "*" } });
        if (inside(p, r)) assert.equal(removed.status, 204);
        else assertRefused(removed, OUTSIDE);
        const inserted = await wire.send("POST", "/Ranged", {
          ...as,
          body: { PartitionKey: p, RowKey: r },
        });
        if (inside(p, r)) assert.equal(inserted.status, 201);
        else assertRefused(inserted, OUTSIDE);
      }
    });
  }

  it("does not follow a continuation token outside its range", async () => {
    const as = sas(tableSas(target, "Ranged", { spk: "b", epk: "b" }));
    for (const [next, expected] of [
      ["YQ--", ["b1", "b2", "b3"]],
      ["Yw--", []],
    ] as const) {
      const answer = await wire.send("GET", `/Ranged?NextPartitionKey=1!4!${next}`, as);
      assert.deepEqual(keysOf(answer), expected);
    }
  });

  const OUTSIDE: Refusal = {
    status: 403,
    code: "AuthorizationFailure",
    message: "This request is not authorized to perform this operation.",
  };

  async function pagesOf(as: Call): Promise<string[]> {
    const keys: string[] = [];
    for (let next = ""; ; ) {
      const answer = await wire.send("GET", `/Ranged?$top=2${next}`, as);
      keys.push(...keysOf(answer));
      const partition = answer.header("x-ms-continuation-nextpartitionkey");
      if (!partition) return keys;
      next = `&NextPartitionKey=${partition}&NextRowKey=${answer.header("x-ms-continuation-nextrowkey")}`;
    }
  }
});

describe("A stored access policy", () => {
  const set = (...policies: readonly (readonly [id: string, inner: string])[]) =>
    wire.send("PUT", "/People?comp=acl", {
      body: `<SignedIdentifiers>${policies.map(([id, inner]) => `<SignedIdentifier><Id>${id}</Id><AccessPolicy>${inner}</AccessPolicy></SignedIdentifier>`).join("")}</SignedIdentifiers>`,
    });
  const policy = (parts: { st?: string; se?: string; sp?: string }) =>
    (parts.st ? `<Start>${parts.st}</Start>` : "") +
    (parts.se ? `<Expiry>${parts.se}</Expiry>` : "") +
    (parts.sp ? `<Permission>${parts.sp}</Permission>` : "");
  /** A token with only the policy's id and the added fields. */
  const token = (si: string, fields: SasFields = {}) =>
    sas(tableSas(target, "People", { sp: undefined, se: undefined, si, ...fields }));
  const read = (as: Call) => wire.send("GET", "/People", as);

  it("supplies the fields that the token omits, and takes effect immediately when changed or removed", async () => {
    await set(["a", policy({ se: inMinutes(9), sp: "r" })]);
    assert.equal((await read(token("a"))).status, 200);
    await set(["a", policy({ se: inMinutes(9), sp: "a" })]);
    assertRefused(await read(token("a")), { status: 403, code: "AuthorizationPermissionMismatch" });
    await set(["a", policy({ se: inMinutes(-9), sp: "r" })]);
    assertRefused(await read(token("a")), FAILED);
    await set(["b", policy({ se: inMinutes(9), sp: "r" })]);
    assertRefused(await read(token("a")), FAILED);
    await set();
    assertRefused(await read(token("b")), FAILED);
  });

  it("and the token may not both set a field, nor both omit it", async () => {
    await set(
      ["time", policy({ st: inMinutes(-9), se: inMinutes(9) })],
      ["right", policy({ sp: "r" })],
      ["none", ""],
    );
    const se = inMinutes(5);
    for (const [as, good] of [
      [token("time", { sp: "r" }), true],
      [token("right", { se }), true],
      [token("none", { se, sp: "r" }), true],
      [token("right", { se, spk: "a", epk: "b" }), true],
      [token("time", { sp: "r", se }), false],
      [token("right", { se, sp: "r" }), false],
      [token("time"), false],
      [token("right"), false],
    ] as const) {
      const answer = await read(as);
      if (good) assert.equal(answer.status, 200, String(answer));
      else assertRefused(answer, FAILED);
    }
  });

  it("of another table is not found", async () => {
    await set(["own", policy({ se: inMinutes(9), sp: "r" })]);
    await wire.send("POST", "/Tables", { body: { TableName: "Others" } });
    const as = sas(tableSas(target, "Others", { sp: undefined, se: undefined, si: "own" }));
    assertRefused(await wire.send("GET", "/Others", as), FAILED);
  });
});

describe("An account SAS", () => {
  it("is valid between its times, signed by either key, from version 2015-04-05 on", async () => {
    for (const [fields, good] of [
      [{}, true],
      [{ sv: "2015-04-05" }, true],
      [{ sv: "2020-12-06" }, true],
      [{ sv: "2020-12-06", ses: "scope" }, true],
      [{ sv: "2030-01-01" }, true],
      [{ st: inMinutes(-5), sip: "127.0.0.1", spr: "https,http" }, true],
      [{ ss: "bqtf", srt: "ocs", sp: "lrwdacup" }, true],
      [{ sv: "2015-02-21" }, false],
      [{ st: inMinutes(5) }, false],
      [{ se: inMinutes(-5) }, false],
      [{ se: undefined }, false],
      [{ sp: undefined }, false],
    ] as const) {
      for (const key of KEYS) {
        const answer = await wire.send(
          "GET",
          "/People",
          sas(accountSas({ ...target, key }, fields)),
        );
        if (good) assert.equal(answer.status, 200, `${JSON.stringify(fields)} ${answer}`);
        else assertRefused(answer, FAILED);
      }
    }
  });

  it("is refused if a signed field was changed", async () => {
    const token = accountSas(target, { sp: "r" });
    assertRefused(await wire.send("GET", "/People", sas(token.replace("sp=r", "sp=rw"))), FAILED);
    assertRefused(
      await wire.send("GET", "/People", sas(token.replace("srt=sco", "srt=co"))),
      FAILED,
    );
  });

  it("is refused with the caller's address in the message", async () => {
    const answer = await wire.send("GET", "/People", sas(accountSas(target, { sip: "10.0.0.1" })));
    assertRefused(answer, {
      status: 403,
      code: "AuthorizationSourceIPMismatch",
      message:
        "This request is not authorized to perform this operation using this source IP 127.0.0.1.",
    });
  });

  it("refused for its address or protocol echoes version and request id, and a forged one does not", async () => {
    const headers = { "x-ms-client-request-id": "mine" };
    for (const fields of [{ sip: "10.0.0.1" }, { spr: "https" }]) {
      for (const token of [accountSas(target, fields), tableSas(target, "People", fields)]) {
        const answer = await wire.send("GET", "/People", { ...sas(token), headers });
        assert.equal(answer.status, 403);
        assert.equal(answer.header("x-ms-version"), "2019-02-02");
        assert.equal(answer.header("x-ms-client-request-id"), "mine");
      }
    }
    const token = accountSas(target, { sip: "10.0.0.1", sv: "2018-03-28" });
    const unversioned = await wire.send("GET", "/People", sas(token));
    assert.equal(unversioned.header("x-ms-version"), "2018-03-28");
    const forged = accountSas(target, { sip: "10.0.0.1" }).replace("sp=", "sp=d");
    const refused = await wire.send("GET", "/People", { ...sas(forged), headers });
    assertRefused(refused, FAILED);
    assert.equal(refused.header("x-ms-version"), undefined);
    assert.equal(refused.header("x-ms-client-request-id"), undefined);
  });
});

function sas(token: string): Call {
  return { as: { kind: "sas", token } };
}

function keysOf(answer: HttpAnswer): string[] {
  return answer.items().map(({ PartitionKey, RowKey }) => `${PartitionKey}${RowKey}`);
}
