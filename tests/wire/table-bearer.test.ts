import assert from "node:assert/strict";
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { after, before, describe, it } from "node:test";
import { JwtVerifier } from "@rowhouse/server/auth/bearer";
import { readBearerSettings } from "@rowhouse/server/auth/bearer-settings";
import { SettingsSection } from "@rowhouse/server/auth/settings-section";
import { systemClock } from "@rowhouse/server/clock";
import { type CryptoKey, exportJWK, generateKeyPair, type JWK, SignJWT } from "jose";
import { type LocalServer, startLocalServer } from "./local-server.ts";
import { assertRefused, type Refusal } from "./refusals.ts";
import { TableWire } from "./table-wire.ts";

const AUDIENCE = "https://storage.azure.com";
const CHALLENGED: Refusal = {
  status: 401,
  code: "InvalidAuthenticationInfo",
  message:
    "Server failed to authenticate the request. Please refer to the information in the www-authenticate header.",
};

/** An issuer of tokens: signs them and publishes its public keys over HTTP. */
class Issuer {
  readonly #http: Server;
  #published: JWK | undefined;
  #key!: CryptoKey;

  constructor() {
    this.#http = createServer((_, response) => {
      response.setHeader("Content-Type", "application/json");
      response.end(JSON.stringify({ keys: [this.#published] }));
    });
  }

  async open(): Promise<void> {
    const { publicKey, privateKey } = await generateKeyPair("ES256");
    this.#key = privateKey;
    this.#published = { ...(await exportJWK(publicKey)), kid: "key", alg: "ES256" };
    await new Promise<void>((resolve) => this.#http.listen(0, "127.0.0.1", resolve));
  }

  get url(): string {
    return `http://127.0.0.1:${(this.#http.address() as AddressInfo).port}`;
  }

  /** A token valid for an hour, except for the given claims. */
  sign(claims: Record<string, unknown>): Promise<string> {
    const now = Math.floor(Date.now() / 1000);
    return new SignJWT({ iss: this.url, aud: AUDIENCE, sub: "ann", exp: now + 3600, ...claims })
      .setProtectedHeader({ alg: "ES256", kid: "key" })
      .sign(this.#key);
  }

  close(): void {
    this.#http.close();
    this.#http.closeAllConnections();
  }
}

const issuer = new Issuer();
const away = new Issuer();
/** The subjects of the requests so far. */
const subjects: (string | undefined)[] = [];
let server: LocalServer;
let wire: TableWire;
before(async () => {
  await issuer.open();
  await away.open();
  const issuers = [issuer, away].map(({ url }) => ({ issuer: url, jwks: `${url}/keys` }));
  const staticTokens = [{ token: "opaque-token", subject: "ci", role: "reader" }];
  const settings = { issuers, allowHttp: true, clockToleranceS: 0, staticTokens };
  server = await startLocalServer({
    bearer: new JwtVerifier(
      readBearerSettings(new SettingsSection(settings, "bearer")),
      systemClock,
    ),
    observer: { finished: ({ subject }) => subjects.push(subject) },
  });
  wire = new TableWire({
    url: `${server.url}/devstoreaccount1`,
    account: "devstoreaccount1",
    key: "",
  });
  await send("POST", "/Tables", await issuer.sign({ roles: ["Storage Table Data Contributor"] }), {
    TableName: "People",
  });
});
after(async () => {
  issuer.close();
  away.close();
  wire.close();
  await server.close();
});

function send(method: string, path: string, token: string, body?: object, headers = {}) {
  return wire.send(method, path, { as: { kind: "bearer", token }, body, headers });
}

describe("A bearer token of a configured issuer", () => {
  it("lets a contributor write and a reader only read", async () => {
    const contributor = await issuer.sign({ roles: ["other", "Storage Table Data Contributor"] });
    const reader = await issuer.sign({ roles: "Storage-Other reader" });
    assert.equal(
      (await send("POST", "/People", contributor, { PartitionKey: "p", RowKey: "r" })).status,
      201,
    );
    for (const token of [contributor, reader, "opaque-token"]) {
      assert.equal((await send("GET", "/People(PartitionKey='p',RowKey='r')", token)).status, 200);
      assert.equal((await send("GET", "/Tables", token)).status, 200);
      assert.equal((await send("GET", "/?restype=service&comp=properties", token)).status, 200);
    }
    const denied = { status: 403, code: "AuthorizationPermissionMismatch" };
    assertRefused(
      await send("POST", "/People", reader, { PartitionKey: "p", RowKey: "x" }),
      denied,
      "json",
    );
    assertRefused(await send("DELETE", "/Tables('People')", reader), denied, "json");
  });

  it("reports its subject to the observer", async () => {
    for (const [token, subject] of [
      [await issuer.sign({ sub: "bob", roles: ["reader"] }), "bob"],
      [await issuer.sign({ sub: "eve" }), "eve"],
      ["opaque-token", "ci"],
      ["unknown", undefined],
    ] as const) {
      await send("GET", "/People", token);
      assert.equal(subjects.at(-1), subject);
    }
  });

  it("grants nothing without a role", async () => {
    for (const roles of [[], ["Owner"], undefined, 7]) {
      assertRefused(await send("GET", "/People", await issuer.sign({ roles })), {
        status: 403,
        code: "AuthorizationPermissionMismatch",
      });
    }
  });

  it("does not grant access to access policies", async () => {
    const token = await issuer.sign({ roles: ["contributor"] });
    for (const method of ["GET", "PUT"]) {
      const answer = await send(method, "/People?comp=acl", token);
      assertRefused(answer, { status: 404, code: "ResourceNotFound" }, "xml");
    }
  });

  it("is refused with the account's own endpoint as audience", async () => {
    const roles = ["contributor"];
    const own = await issuer.sign({
      roles,
      aud: "https://devstoreaccount1.table.core.windows.net",
    });
    assertRefused(await send("GET", "/People", own), CHALLENGED);
    assert.equal(
      (await send("GET", "/People", await issuer.sign({ roles, aud: [`${AUDIENCE}/`, "x"] })))
        .status,
      200,
    );
  });

  it("is refused in versions older than bearer tokens", async () => {
    const token = await issuer.sign({ roles: ["reader"] });
    for (const version of ["2017-07-29", undefined]) {
      const answer = await send("GET", "/People", token, undefined, { "x-ms-version": version });
      assertRefused(answer, { status: 403, code: "AuthenticationFailed" });
    }
  });
});

describe("A bearer token is challenged", () => {
  const now = Math.floor(Date.now() / 1000);
  const roles = ["contributor"];
  const forgeries: Record<string, () => Promise<string>> = {
    "when it has expired": () => issuer.sign({ roles, exp: now - 10 }),
    "when it is not valid yet": () => issuer.sign({ roles, nbf: now + 600 }),
    "when it never expires": () => issuer.sign({ roles, exp: undefined }),
    "when its audience is another service": () =>
      issuer.sign({ roles, aud: "https://vault.example" }),
    "when its issuer is unknown": () => issuer.sign({ roles, iss: "https://issuer.example" }),
    "when another issuer signed it": () => away.sign({ roles, iss: issuer.url }),
    "when its key is not published": async () => {
      const liar = new Issuer();
      await liar.open();
      const token = await liar.sign({ roles, iss: issuer.url });
      liar.close();
      return token;
    },
    "when it was changed": async () => {
      const [head, , signature] = (await issuer.sign({ roles: [] })).split(".");
      const claims = { iss: issuer.url, aud: AUDIENCE, exp: now + 600, roles };
      return [head, Buffer.from(JSON.stringify(claims)).toString("base64url"), signature].join(".");
    },
    "when it is not signed": async () => {
      const [, claims] = (await issuer.sign({ roles })).split(".");
      return `${Buffer.from('{"alg":"none"}').toString("base64url")}.${claims}.`;
    },
    "when it is not a token": async () => "nonsense",
    "when it consists of dots": async () => "..",
  };
  for (const [when, draw] of Object.entries(forgeries)) {
    it(when, async () => {
      const answer = await send("GET", "/People", await draw());
      assertRefused(answer, CHALLENGED);
      assert.match(
        answer.header("www-authenticate")!,
        /^Bearer authorization_uri=https:\/\/\S+ resource_id=https:\/\/storage\.azure\.com$/,
      );
    });
  }

  it("except when the issuer is unreachable, which is answered with ServerBusy", async () => {
    const token = await away.sign({ roles });
    away.close();
    const answer = await send("GET", "/People", token);
    assertRefused(answer, { status: 503, code: "ServerBusy" });
  });
});

it("Every bearer token is challenged without a configured issuer, and refused over HTTP if HTTPS is required", async () => {
  const settings = {
    staticTokens: [{ token: "opaque-token", role: "reader" }],
  };
  const bearer = new JwtVerifier(
    readBearerSettings(new SettingsSection(settings, "bearer")),
    systemClock,
  );
  for (const [options, refusal] of [
    [{}, CHALLENGED],
    [{ bearer }, { status: 403, code: "AuthenticationFailed" }],
  ] as const) {
    const other = await startLocalServer(options);
    const client = new TableWire({
      url: `${other.url}/devstoreaccount1`,
      account: "devstoreaccount1",
      key: "",
    });
    const answer = await client.send("GET", "/Tables", {
      as: { kind: "bearer", token: "opaque-token" },
    });
    assertRefused(answer, refusal);
    client.close();
    await other.close();
  }
});
