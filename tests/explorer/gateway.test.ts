import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import { gunzipSync } from "node:zlib";
import { Accounts, DEVELOPMENT_ACCOUNT } from "@rowhouse/server/auth/accounts";
import { accountSas, queryText, tomorrow } from "../wire/storage-sas.ts";
import { KEY, sign } from "../wire/storage-wire.ts";
import {
  type Asked,
  type ExplorerServer,
  LINK,
  LOCAL,
  NAME,
  OWNER,
  startExplorer,
  startWithFilms,
} from "./explorer-server.ts";

const SESSION = "/_rowhouse/api/v1/session";

let server: ExplorerServer;
let token: string;
before(async () => {
  ({ server, token } = await startWithFilms([
    { PartitionKey: "1984", RowKey: "Dune", n: 1 },
    { PartitionKey: "1984", RowKey: "Gremlins", n: 1 },
    { PartitionKey: "1986", RowKey: "Aliens", n: 1 },
  ]));
});
after(() => server.close());

describe("The page of the explorer", () => {
  it("is served compressed or not, with headers that let it run its own scripts alone", async () => {
    const compressed = await server.ask("GET", "/_rowhouse/", {
      headers: { "Accept-Encoding": "gzip, br" },
    });
    assert.equal(compressed.header("content-encoding"), "gzip");
    const plain = await server.ask("GET", "/_rowhouse/");
    assert.equal(plain.header("content-encoding"), undefined);
    assert.equal(plain.text, gunzipSync(compressed.body).toString("utf8"));
    assert.match(plain.text, /<title>Rowhouse<\/title>/);
    for (const answer of [plain, await server.ask("GET", "/_rowhouse/nothing")]) {
      const policy = answer.header("content-security-policy") ?? "";
      assert.match(policy, /^default-src 'none'; script-src 'self';/);
      assert.match(policy, /require-trusted-types-for 'script'; trusted-types 'none'$/);
      assert.equal(answer.header("x-content-type-options"), "nosniff");
      assert.equal(answer.header("referrer-policy"), "no-referrer");
    }
  });

  it("opens from a link of another site, which may use nothing else of it", async () => {
    const headers = { Origin: undefined, "Sec-Fetch-Site": "cross-site" };
    assert.equal((await server.ask("GET", "/_rowhouse/", { headers })).status, 200);
    assert.equal((await server.ask("GET", "/_rowhouse/assets/x", { headers })).status, 403);
    assert.equal((await server.ask("POST", SESSION, { headers, body: OWNER })).status, 403);
  });

  it("is not there under a name that somebody else made lead here", async () => {
    for (const host of ["evil.example", "127.0.0.1.evil.example", "localhost.evil.example", ""]) {
      const answer = await server.ask("GET", "/_rowhouse/", { headers: { Host: host } });
      assert.equal(answer.status, 403, host);
    }
    for (const host of ["localhost:10002", "[::1]:10002", "10.1.2.3"]) {
      const answer = await server.ask("GET", "/_rowhouse/", { headers: { Host: host } });
      assert.equal(answer.status, 200, host);
    }
  });

  it("leaves the service's own paths alone", async () => {
    const answer = await server.ask("GET", `/${NAME}/Tables`);
    assert.match(answer.header("server") ?? "", /^Rowhouse-Table/);
    const old = await server.ask("GET", "/rowhouse/insight");
    assert.deepEqual([old.status, old.header("content-security-policy")], [404, undefined]);
  });
});

describe("A session", () => {
  it("is opened by the link of the start once", async () => {
    const { account, kind, isReadOnly } = await server.logIn({ link: LINK });
    assert.deepEqual(
      { account, kind, isReadOnly },
      { account: NAME, kind: "key", isReadOnly: false },
    );
    const again = await server.ask("POST", SESSION, { body: { link: LINK } });
    assert.equal(again.status, 403);
    assert.match(again.text, /used before/);
  });

  it("is not opened by a wrong key, an unknown account, or what is no credential", async () => {
    for (const [credential, status] of [
      [{ account: NAME, key: Buffer.alloc(64).toString("base64") }, 403],
      [{ account: NAME, key: "" }, 403],
      [{ account: "nobody", key: KEY }, 403],
      [{ link: "" }, 403],
      [{ sas: "no URL" }, 403],
      [{ sas: `${server.url}/${NAME}?sv=2019-02-02` }, 403],
      [{ sas: `${server.url}/nobody?${accountSas({ ss: "t", sp: "r" })}` }, 403],
      [{ account: NAME }, 400],
      [{ account: 1, key: KEY }, 400],
      [{}, 400],
      ["[]", 400],
      ["null", 400],
      ["{", 400],
      [`{"link":"${"x".repeat(20_000)}"}`, 400],
    ] as const) {
      const answer = await server.ask("POST", SESSION, { body: credential });
      assert.equal(answer.status, status, JSON.stringify(credential).slice(0, 80));
      assert.ok(!answer.text.includes(KEY));
    }
    assert.equal((await server.ask("GET", SESSION)).status, 405);
  });

  it("is not opened by a signature that does not hold", async () => {
    const sas = accountSas({ ss: "t", sp: "r" }).replace(/sig=..../, "sig=AAAA");
    const answer = await server.ask("POST", SESSION, {
      body: { sas: `${server.url}/${NAME}?${sas}` },
    });
    assert.equal(answer.status, 403);
    assert.match(answer.text, /AuthenticationFailed/);
  });

  it("ends when its token is changed, its time is over, or its key is replaced", async () => {
    const refused = async (text: string) => {
      const answer = await server.wire(text, "GET", `${NAME}/Tables`);
      assert.equal(answer.status, 401, text);
    };
    await refused("");
    await refused(NAME);
    await refused(`${NAME}.`);
    await refused(token.slice(0, -1));
    await refused(token.replace(NAME, "other"));
    await refused(`${token.slice(0, 40)}${token[40] === "A" ? "B" : "A"}${token.slice(41)}`);

    let now = Date.now();
    const accounts = new Accounts([DEVELOPMENT_ACCOUNT]);
    const own = await startExplorer({
      accounts,
      clock: { now: () => now, elapsed: () => 0 } as never,
    });
    const session = await own.logIn(OWNER);
    assert.equal((await own.wire(session.token, "GET", `${NAME}/Tables`)).status, 200);
    now += 12 * 3_600_000;
    assert.equal((await own.wire(session.token, "GET", `${NAME}/Tables`)).status, 401);
    now -= 3_600_000;
    accounts.replaceWith(new Accounts([{ name: NAME, keys: [Buffer.alloc(64, 1)] }]));
    assert.equal((await own.wire(session.token, "GET", `${NAME}/Tables`)).status, 401);
    await own.close();
  });
});

describe("The gateway", () => {
  it("answers as the service does, errors included", async () => {
    const list = await server.wire(token, "GET", `${NAME}/Films()?$filter=RowKey%20eq%20'Dune'`);
    assert.equal(list.status, 200);
    assert.match(list.text, /"RowKey":"Dune"/);
    assert.match(list.header("x-rowhouse-plan") ?? "", /^table scan where RowKey eq 'Dune'/);
    const wrong = await server.wire(token, "GET", `${NAME}/Films()?$filter=RowKey%20eq`);
    assert.deepEqual([wrong.status, wrong.header("x-ms-error-code")], [400, "InvalidInput"]);
    const missing = await server.wire(token, "GET", `${NAME}/Nothing()`);
    assert.deepEqual([missing.status, missing.header("x-ms-error-code")], [404, "TableNotFound"]);
    const merged = await server.wire(
      token,
      "POST",
      `${NAME}/Films(PartitionKey='1986',RowKey='Aliens')`,
      { body: { year: 1986 }, headers: { "X-HTTP-Method": "MERGE", "If-Match": "*" } },
    );
    assert.equal(merged.status, 204);
  });

  it("takes nothing but what the page may say: no credential, no address, no other account", async () => {
    const other = await server.wire(token, "GET", "other/Tables");
    assert.equal(other.status, 403);
    for (const path of ["", "/", "../", `${NAME}x/Tables`, `%64evstoreaccount1/Tables`])
      assert.equal((await server.wire(token, "GET", path)).status, 403, path);
    const own = { "x-ms-date": "yesterday", "x-ms-version": "2009-09-19" };
    const list = await server.wire(token, "GET", `${NAME}/Tables`, { headers: own });
    assert.deepEqual([list.status, list.header("x-ms-version")], [200, "2019-02-02"]);
  });

  it("refuses malformed requests as the service does, and goes on serving", async () => {
    for (const path of [
      "Films()?$filter=%",
      "Films()?$filter=%FF",
      "Films(%E0%80)",
      "Films()?comp=%ZZ",
      "Films()?$top=-1",
      "%00",
      "$batch",
      `Films()?$filter=${"(".repeat(2000)}`,
    ]) {
      const answer = await server.wire(token, "GET", `${NAME}/${path}`);
      assert.ok(answer.status >= 400 && answer.status < 500, `${path}: ${answer.status}`);
    }
    assert.equal((await server.wire(token, "GET", `${NAME}/Tables`)).status, 200);
  });

  it("answers only the page's own origin, and allows no other to read", async () => {
    const cors = `<StorageServiceProperties><Cors><CorsRule><AllowedOrigins>*</AllowedOrigins><AllowedMethods>GET</AllowedMethods><MaxAgeInSeconds>9</MaxAgeInSeconds><ExposedHeaders>*</ExposedHeaders><AllowedHeaders>*</AllowedHeaders></CorsRule></Cors></StorageServiceProperties>`;
    const set = await server.wire(token, "PUT", `${NAME}/?restype=service&comp=properties`, {
      body: cors,
      headers: { "Content-Type": "application/xml" },
    });
    assert.equal(set.status, 202);
    for (const headers of [
      { Origin: "http://evil.example" },
      { Origin: "null" },
      { Origin: server.url.replace(/:\d+$/, ":10000") },
      { "Sec-Fetch-Site": "same-site" },
      { "Sec-Fetch-Site": "cross-site" },
      { "Sec-Fetch-Site": "none" },
    ]) {
      const answer = await server.wire(token, "GET", `${NAME}/Tables`, { headers });
      assert.equal(answer.status, 403, JSON.stringify(headers));
    }
    // A proxy may end TLS in front of the server.
    const secure = { Origin: server.url.replace(/^http:/, "https:") };
    const answer = await server.wire(token, "GET", `${NAME}/Tables`, { headers: secure });
    assert.equal(answer.status, 200);
    const exposed = answer.headers.filter(([name]) => /^access-control/i.test(name));
    assert.deepEqual(exposed, []);
  });

  it("cuts cells only where the page asks for it", async () => {
    const long = "ä😀".repeat(5000);
    const body = { PartitionKey: "long", RowKey: "r", text: long };
    assert.equal((await server.wire(token, "POST", `${NAME}/Films`, { body })).status, 201);
    const path = `${NAME}/Films()?$filter=PartitionKey%20eq%20'long'`;
    const headers = { "x-rowhouse-cell-max": "256" };
    const cut = (await server.wire(token, "GET", path, { headers })).json() as { value: unknown[] };
    const [row] = cut.value as [Record<string, unknown>];
    assert.equal(row["text@rowhouse.length"], long.length);
    assert.ok(long.startsWith(String(row.text)) && String(row.text).length <= 256);
    const whole = (await server.wire(token, "GET", path)).json() as { value: [{ text: string }] };
    assert.equal(whole.value[0].text, long);
  });

  it("stops a page after about as many entities as the page wants read", async () => {
    for (let i = 0; i < 300; i += 100) {
      const rows = Array.from({ length: 100 }, (_, j) => ({
        PartitionKey: `p${i}`,
        RowKey: `${j}`,
      }));
      for (const body of rows) await server.wire(token, "POST", `${NAME}/Films`, { body });
    }
    const path = `${NAME}/Films()?$filter=nothing%20eq%201`;
    const headers = { "x-rowhouse-read-max": "100" };
    const first = await server.wire(token, "GET", path, { headers });
    assert.match(first.header("x-rowhouse-cost") ?? "", /^entities-read=128,/);
    assert.ok(first.header("x-ms-continuation-nextpartitionkey"));
    const wrong = await server.wire(token, "GET", path, {
      headers: { "x-rowhouse-read-max": "0" },
    });
    assert.deepEqual([wrong.status, wrong.header("x-ms-error-code")], [400, "InvalidHeaderValue"]);
  });
});

describe("A session of a shared access signature", () => {
  it("does what the signature allows, and nothing else", async () => {
    const sas = `${server.url}/${NAME}?${accountSas({ ss: "t", sp: "r" })}`;
    const session = await server.logIn({ sas });
    assert.deepEqual([session.kind, session.permissions], ["sas", "r"]);
    const ask = async (verb: string, path: string, call = {}) =>
      (await server.wire(session.token, verb, `${NAME}/${path}`, call)).status;
    assert.equal(await ask("GET", "Films()"), 200);
    assert.equal(await ask("GET", "_rowhouse/statistics/Films"), 200);
    assert.equal(await ask("GET", "Tables"), 403);
    assert.equal(await ask("GET", "_rowhouse/indexes"), 403);
    assert.equal(await ask("POST", "Films", { body: { PartitionKey: "x", RowKey: "y" } }), 403);
    assert.equal(
      await ask("DELETE", "Films(PartitionKey='1984',RowKey='Dune')", {
        headers: { "If-Match": "*" },
      }),
      403,
    );
    assert.ok(!session.token.includes("sig"));
  });

  it("of a table and a range of keys sees that range", async () => {
    const names = { sv: "2019-02-02", tn: "films", sp: "r", se: tomorrow() };
    const range = { spk: "1984", srk: "E", epk: "1984", erk: "Z" };
    const resource = `/table/${NAME}/films`;
    const text = ["r", "", names.se, resource, "", "", "", names.sv, "1984", "E", "1984", "Z"];
    const query = queryText({ ...names, ...range, sig: sign(KEY, text.join("\n")) });
    const session = await server.logIn({ sas: `${server.url}/${NAME}/films?${query}` });
    assert.equal(session.table, "films");
    const list = await server.wire(session.token, "GET", `${NAME}/films()`);
    const { value } = list.json() as { value: readonly { RowKey: string }[] };
    assert.deepEqual(
      value.map(({ RowKey }) => RowKey),
      ["Gremlins"],
    );
    const statistics = await server.wire(
      session.token,
      "GET",
      `${NAME}/_rowhouse/statistics/films`,
    );
    assert.equal(statistics.status, 403);
  });
});

describe("A read-only explorer", () => {
  it("refuses every method that could change something, tunnelled or not", async () => {
    const own = await startExplorer({ isReadOnly: true });
    const session = await own.logIn(OWNER);
    assert.equal(session.isReadOnly, true);
    const ask = async (verb: string, path: string, headers = {}) =>
      (await own.wire(session.token, verb, `${NAME}/${path}`, { headers })).status;
    assert.equal(await ask("GET", "Tables"), 200);
    // Passed on to the service, which has no such operation.
    assert.equal(await ask("HEAD", "Tables"), 405);
    for (const verb of ["POST", "PUT", "DELETE"])
      assert.equal(await ask(verb, "Tables"), 403, verb);
    for (const verb of ["MERGE", "PATCH", "OPTIONS"])
      assert.equal(await ask(verb, "Tables"), 405, verb);
    assert.equal(await ask("GET", "Tables('Films')", { "X-HTTP-Method": "DELETE" }), 400);
    await own.close();
  });
});

describe("Queues and blobs behind the explorer", () => {
  it("are reached in the name of the session, under the rules of the table's gateway", async () => {
    const all = { table: LOCAL, queue: LOCAL, blob: LOCAL };
    const own = await startExplorer({}, all);
    const { token: owner } = await own.logIn(OWNER);
    const ask = (token: string, verb: string, path: string, call: Asked = {}) =>
      own.ask(verb, `/_rowhouse/api/v1/${path}`, {
        ...call,
        headers: { Authorization: `Bearer ${token}`, ...call.headers },
      });
    assert.equal((await ask(owner, "PUT", `queue/${NAME}/qqq`)).status, 201);
    const body = "<QueueMessage><MessageText>hello</MessageText></QueueMessage>";
    assert.equal((await ask(owner, "POST", `queue/${NAME}/qqq/messages`, { body })).status, 201);
    assert.match((await ask(owner, "GET", `queue/${NAME}?comp=list`)).text, /<Name>qqq<\/Name>/);
    assert.equal((await ask(owner, "PUT", `blob/${NAME}/ccc?restype=container`)).status, 201);
    const missing = await ask(owner, "GET", `blob/${NAME}/ccc/none`);
    assert.equal(missing.status, 404);
    assert.equal(missing.header("content-disposition"), "attachment");
    assert.match(missing.header("content-security-policy") ?? "", /default-src 'none'/);
    assert.equal((await ask(owner, "GET", "queue/other?comp=list")).status, 403);
    assert.equal((await ask("x", "GET", `blob/${NAME}?comp=list`)).status, 401);
    const sas = `${own.url}/${NAME}?${accountSas({ ss: "tq", sp: "rl" })}`;
    const { token: guest } = await own.logIn({ sas });
    assert.equal((await ask(guest, "GET", `queue/${NAME}?comp=list`)).status, 200);
    assert.equal((await ask(guest, "PUT", `queue/${NAME}/mine`)).status, 403);
    assert.equal((await ask(guest, "GET", `blob/${NAME}?comp=list`)).status, 403);
    await own.close();
    const reading = await startExplorer({ isReadOnly: true }, all);
    const { token: reader } = await reading.logIn(OWNER);
    const write = await reading.ask("PUT", `/_rowhouse/api/v1/queue/${NAME}/qqq`, {
      headers: { Authorization: `Bearer ${reader}` },
    });
    assert.match(write.text, /ReadOnly/);
    // Whoever receives a message hides it from others.
    const queue = `/_rowhouse/api/v1/queue/${NAME}/qqq`;
    const read = (path: string) =>
      reading.ask("GET", `${queue}${path}`, { headers: { Authorization: `Bearer ${reader}` } });
    for (const path of [
      ...["/messages", "/%6Dessages", "/messages/", "/messages?peekonly=false"],
      ...["/messages?PeekOnly=false&peekonly=true", "/messages?x=%ff&peekonly=true"],
    ])
      assert.match((await read(path)).text, /ReadOnly/, path);
    for (const path of ["/messages?peekonly=true", "?comp=metadata"])
      assert.match((await read(path)).text, /QueueNotFound/, path);
    await reading.close();
    const off = await server.ask("GET", `/_rowhouse/api/v1/queue/${NAME}?comp=list`, {
      headers: { Authorization: `Bearer ${token}` },
    });
    assert.match(off.text, /ServiceIsOff/);
  });
});

describe("A signature made by the explorer", () => {
  const wanted = (parameters: object) => ({
    ...{ service: "table", resource: "Films" },
    parameters: { sv: "2019-02-02", tn: "Films", se: tomorrow(), ...parameters },
  });
  const make = (own: ExplorerServer, as: string, body: object | string) =>
    own.ask("POST", "/_rowhouse/api/v1/sas", { body, headers: { Authorization: `Bearer ${as}` } });

  it("opens what it says and no more, with the range of keys", async () => {
    const made = await make(server, token, wanted({ sp: "r", spk: "1984", epk: "1984" }));
    const { sas, token: guest } = made.json() as { sas: string; token: string };
    const read = await server.ask("GET", `/${NAME}/Films()?${sas}`, {
      headers: { Accept: "application/json;odata=nometadata" },
    });
    assert.equal((read.json() as { value: unknown[] }).value.length, 2);
    const inside = `${NAME}/Films()?$filter=PartitionKey%20eq%20'1984'&$top=1`;
    assert.equal((await server.wire(guest, "GET", inside)).status, 200);
    const beyond = `${NAME}/Films(PartitionKey='1986',RowKey='Aliens')`;
    assert.equal((await server.wire(guest, "GET", beyond)).status, 404);
    assert.equal((await server.wire(guest, "GET", `${NAME}/Tables`)).status, 403);
    assert.match((await make(server, guest, wanted({ sp: "r" }))).text, /SignatureNeedsKey/);
  });

  it("is refused to strangers, for nonsense, and in a read-only explorer if it could change something", async () => {
    assert.equal((await make(server, "x", wanted({ sp: "r" }))).status, 401);
    for (const body of ["", "[]", "{}", { service: "table", parameters: { sp: 1 } }])
      assert.equal((await make(server, token, body)).status, 400);
    const own = await startExplorer({ isReadOnly: true });
    const { token: reader } = await own.logIn(OWNER);
    assert.equal((await make(own, reader, wanted({ sp: "r" }))).status, 200);
    for (const sp of ["ra", "d", "", "rr"])
      assert.match((await make(own, reader, wanted({ sp }))).text, /ReadOnly/);
    assert.match((await make(own, reader, wanted({ sp: "r", si: "p" }))).text, /ReadOnly/);
    await own.close();
  });
});

describe("What the server watched", () => {
  it("is shown to the owner of the account alone, from the login on", async () => {
    const asked: string[] = [];
    const own = await startExplorer({
      insight: {
        start: async () => asked.push("start"),
        heat: async (account) => asked.push(`heat of ${account}`),
        activity: async (account) => asked.push(`activity of ${account}`),
        recordings: async () => ["one\n", "two\n"],
      },
    });
    const ask = (token: string, path: string, verb = "GET") =>
      own.ask(verb, `/_rowhouse/api/v1/insight/${path}`, {
        headers: { Authorization: `Bearer ${token}` },
      });
    const owner = await own.logIn(OWNER);
    assert.equal((await ask(owner.token, "heat")).status, 200);
    assert.equal((await ask(owner.token, "activity")).status, 200);
    assert.deepEqual(asked, ["start", `heat of ${NAME}`, `activity of ${NAME}`]);
    assert.equal((await ask(owner.token, "recordings")).text, "one\ntwo\n");
    assert.equal((await ask(owner.token, "other")).status, 404);
    assert.equal((await ask(owner.token, "heat", "POST")).status, 405);
    assert.equal((await ask("x", "heat")).status, 401);
    const sas = `${own.url}/${NAME}?${accountSas({ ss: "t", sp: "rl" })}`;
    const guest = await own.logIn({ sas });
    for (const name of ["heat", "activity", "recordings"]) {
      const refused = await ask(guest.token, name);
      assert.match(refused.text, /InsightNeedsKey/);
      assert.equal(refused.status, 403);
    }
    await own.close();
  });
});

describe("Table statistics", () => {
  it("count what is there, partition by partition", async () => {
    const answer = await server.wire(token, "GET", `${NAME}/_rowhouse/statistics/Films`);
    const { complete, entities, partitions, largest } = answer.json() as Record<string, unknown>;
    assert.deepEqual(
      { complete, entities, partitions, largest },
      {
        complete: true,
        entities: 304,
        partitions: 6,
        largest: { partitionKey: "p0", entities: 100 },
      },
    );
  });
});
