import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import { Accounts, DEVELOPMENT_ACCOUNT } from "@rowhouse/server/auth/accounts";
import { HttpConnection } from "./http-connection.ts";
import { type LocalServer, startLocalServer } from "./local-server.ts";
import { assertRefused } from "./refusals.ts";
import { accountSas } from "./table-sas.ts";
import { hmac, TableWire } from "./table-wire.ts";

const KEY = Buffer.from(DEVELOPMENT_ACCOUNT.keys[0]!).toString("base64");
const NAME = DEVELOPMENT_ACCOUNT.name;

let server: LocalServer;
before(async () => {
  const others = ["second", "third3"].map((name) => ({ name, keys: DEVELOPMENT_ACCOUNT.keys }));
  server = await startLocalServer({ accounts: new Accounts([DEVELOPMENT_ACCOUNT, ...others]) });
});
after(() => server.close());

/** Where a client addresses its account: path-style or, given a host, host-style. */
interface Place {
  readonly account?: string;
  readonly path?: string;
  readonly host?: string;
}

async function as<T>(place: Place, work: (send: TableWire["send"]) => Promise<T>): Promise<T> {
  const { account = NAME, host } = place;
  const { path = `/${account}` } = place;
  const wire = new TableWire({ url: `${server.url}${path}`, account, key: KEY });
  try {
    return await work((method, target, call = {}) =>
      wire.send(method, target, {
        ...call,
        headers: { ...(host && { Host: host }), ...call.headers },
      }),
    );
  } finally {
    wire.close();
  }
}

describe("An account", () => {
  it("is found in the host name or in the path, and is the same one", async () => {
    const created = await as({}, (send) =>
      send("POST", "/Tables", { body: { TableName: "Shared" } }),
    );
    assert.equal(created.header("location"), `${server.url}/${NAME}/Tables('Shared')`);
    const { port } = new URL(server.url);
    for (const host of [
      `${NAME}.table.localhost:${port}`,
      `${NAME}.table.core.windows.net`,
      `${NAME.toUpperCase()}.table.example.test`,
    ]) {
      const answer = await as({ path: "", host }, (send) => send("GET", "/Tables('Shared')"));
      assert.equal(answer.status, 200, String(answer));
      assert.deepEqual(answer.json(), {
        "odata.metadata": `http://${host}/$metadata#Tables/@Element`,
        TableName: "Shared",
      });
    }
  });

  it("is found in the path if the host names another service or an unknown account", async () => {
    for (const host of [
      `${NAME}.queue.localhost`,
      "nobody.table.localhost",
      "localhost",
      "[::1]:10002",
      "127.0.0.1",
    ]) {
      const answer = await as({ host }, (send) => send("GET", "/Tables"));
      assert.equal(answer.status, 200, host);
      assert.match(
        answer.text,
        new RegExp(`^\\{"odata\\.metadata":"http://${host.replace(/[[\].]/g, "\\$&")}/${NAME}/`),
      );
    }
  });

  it("has its own tables", async () => {
    for (const account of ["second", "third3"]) {
      const answer = await as({ account }, (send) =>
        send("POST", "/Tables", { body: { TableName: "Own" } }),
      );
      assert.equal(answer.status, 201);
      await as({ account }, (send) =>
        send("POST", "/Own", { body: { PartitionKey: account, RowKey: "r" } }),
      );
    }
    for (const account of ["second", "third3"]) {
      const list = await as({ account }, (send) => send("GET", "/Own"));
      assert.deepEqual(
        list.items().map(({ PartitionKey }) => PartitionKey),
        [account],
      );
      const tables = await as({ account }, (send) => send("GET", "/Tables"));
      assert.deepEqual(tables.items(), [{ TableName: "Own" }]);
    }
  });

  it("that is not configured is refused with 404", async () => {
    const answer = await as({ account: "nobody" }, (send) => send("GET", "/Tables"));
    assertRefused(answer, { status: 404, code: "ResourceNotFound" }, "json");
    for (const path of ["/", "//", "/?comp=list", "/%zz/Tables"]) {
      const connection = await HttpConnection.open(new URL(server.url));
      connection.write(`GET ${path} HTTP/1.1\r\nHost: localhost\r\n\r\n`);
      assertRefused(await connection.answer(), { status: 404, code: "ResourceNotFound" }, "xml");
      connection.destroy();
    }
  });

  it("is never read from a host name if that is switched off", async () => {
    const other = await startLocalServer({ hostStyle: false });
    const wire = new TableWire({ url: `${other.url}/${NAME}`, account: NAME, key: KEY });
    const answer = await wire.send("GET", "/Tables", {
      headers: { Host: `${NAME}.table.localhost` },
    });
    assert.match(
      answer.text,
      /^\{"odata\.metadata":"http:\/\/devstoreaccount1\.table\.localhost\/devstoreaccount1\//,
    );
    wire.close();
    await other.close();
  });
});

describe("The secondary endpoint", () => {
  it("reads what was written at the primary, in either style, and refuses writes", async () => {
    await as({}, (send) => send("POST", "/Tables", { body: { TableName: "Twice" } }));
    for (const place of [
      { path: `/${NAME}-secondary` },
      { path: "", host: `${NAME}-secondary.table.localhost` },
    ]) {
      const answer = await as(place, (send) => send("GET", "/Tables('Twice')"));
      assert.equal(answer.status, 200, String(answer));
      const refused = await as(place, (send) => send("POST", "/Twice", { body: {} }));
      assertRefused(refused, {
        status: 403,
        code: "InsufficientAccountPermissions",
        message: "Write operations are not allowed.",
      });
    }
  });

  it("accepts signatures for its own path and for the primary's", async () => {
    const date = new Date().toUTCString();
    for (const segment of [NAME, `${NAME}-secondary`]) {
      const signature = hmac(KEY, `${date}\n/${NAME}/${segment}/Tables`);
      const headers = { "x-ms-date": date, Authorization: `SharedKeyLite ${NAME}:${signature}` };
      const answer = await as({ path: `/${NAME}-secondary` }, (send) =>
        send("GET", "/Tables", { headers }),
      );
      assert.equal(answer.status, 200);
    }
    const token = accountSas({ url: "", account: NAME, key: KEY });
    const answer = await as({ path: `/${NAME}-secondary` }, (send) =>
      send("GET", "/Tables", { as: { kind: "sas", token } }),
    );
    assert.equal(answer.status, 200);
  });

  it("is the only endpoint with replication statistics", async () => {
    const path = "/?restype=service&comp=stats";
    const stats = await as({ path: `/${NAME}-secondary` }, (send) => send("GET", path));
    assert.equal(stats.status, 200);
    assert.equal(stats.header("content-type"), "application/xml");
    assert.match(
      stats.text,
      /^\ufeff<\?xml version="1\.0" encoding="utf-8"\?><StorageServiceStats><GeoReplication><Status>live<\/Status><LastSyncTime>\w{3}, \d\d \w{3} \d{4} \d\d:\d\d:\d\d GMT<\/LastSyncTime><\/GeoReplication><\/StorageServiceStats>$/,
    );
    assertRefused(
      await as({}, (send) => send("GET", path)),
      { status: 400, code: "InvalidQueryParameterValue" },
      "xml",
    );
  });
});

describe("x-ms-version", () => {
  it("may be any date from 2009-09-19 on, and is echoed", async () => {
    for (const version of ["2013-08-15", "2015-12-11", "2019-02-02", "2026-04-06", "2999-12-31"]) {
      const answer = await as({}, (send) =>
        send("GET", "/Tables", { headers: { "x-ms-version": version } }),
      );
      assert.equal(answer.status, 200, version);
      assert.equal(answer.header("x-ms-version"), version);
    }
    const old = await as({}, (send) =>
      send("DELETE", "/Tables('Nobody')", { headers: { "x-ms-version": "2009-09-19" } }),
    );
    assert.equal(old.status, 404);
  });

  for (const version of [
    "2009-09-18",
    "2019-2-2",
    "latest",
    "",
    "2019-13-01",
    "2019-02-32",
    "2019-02-30",
    "02-02-2019",
    "2019-02-02, 2019-02-02",
  ]) {
    it(`is refused as "${version}"`, async () => {
      const answer = await as({}, (send) =>
        send("GET", "/Tables", { headers: { "x-ms-version": version } }),
      );
      assertRefused(answer, { status: 400, code: "InvalidHeaderValue" });
    });
  }

  it("and the client request id are echoed, unless the id is too long or not ASCII", async () => {
    for (const [id, echoed] of [
      ["abc", "abc"],
      ["x".repeat(1024), "x".repeat(1024)],
      ["x".repeat(1025), undefined],
      ["caf\u00e9", undefined],
    ] as const) {
      const answer = await as({}, (send) =>
        send("GET", "/Tables", { headers: { "x-ms-client-request-id": id } }),
      );
      assert.equal(answer.status, 200);
      assert.equal(answer.header("x-ms-client-request-id"), echoed);
    }
  });
});

describe("timeout", () => {
  for (const [value, status] of [
    ["5", 200],
    ["30", 200],
    ["90", 200],
    ["", 200],
    ["0", 200],
    ["soon", 400],
    ["-1", 400],
    ["1.5", 400],
  ] as const) {
    it(`of "${value}" is answered with ${status}`, async () => {
      const answer = await as({}, (send) => send("GET", `/Tables?timeout=${value}`));
      assert.equal(answer.status, status);
    });
  }
});
