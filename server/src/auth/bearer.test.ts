import assert from "node:assert/strict";
import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { describe, it } from "node:test";
import { type CryptoKey, exportJWK, generateKeyPair, SignJWT } from "jose";
import {
  type BearerSettings,
  DEFAULT_AUTHORITY,
  type IssuerSettings,
  JwtVerifier,
} from "./bearer.ts";
import { frozenAt } from "./test-request.ts";

const NOW = "2021-01-06T12:00:00Z";
const NOW_S = Date.parse(NOW) / 1000;
const ISSUER = "https://login.test/tenant";
const AUDIENCE = "https://storage.azure.com";

const ours = await generateKeyPair("RS256");
const theirs = await generateKeyPair("RS256");
const jwk = { ...(await exportJWK(ours.publicKey)), kid: "ours", alg: "RS256" };

describe("a bearer token", () => {
  it("identifies its subject and role", async () => {
    assert.deepEqual(await verify(await token({ roles: ["Storage Table Data Reader"] })), {
      kind: "bearer",
      role: "reader",
      subject: "ann",
    });
  });

  const roles: [claim: unknown, role: string][] = [
    [["Storage Table Data Contributor"], "contributor"],
    [["Storage Table Data Reader", "Storage Table Data Contributor"], "contributor"],
    ["openid reader", "reader"],
    ["reader contributor", "contributor"],
    ["", "none"],
    [["Owner"], "none"],
    [[], "none"],
    [undefined, "none"],
    [{ reader: true }, "none"],
    ["readers", "none"],
    [["readers"], "none"],
    [["Reader"], "none"],
    [[["reader"]], "none"],
  ];
  for (const [claim, role] of roles) {
    it(`has the role ${role} with the claim ${JSON.stringify(claim)}`, async () => {
      const identity = await verify(await token({ roles: claim }));
      assert.deepEqual(identity, { kind: "bearer", role, subject: "ann" });
    });
  }

  it("may have its roles in another claim, when one is configured", async () => {
    const settings = { rolesClaim: "scp", readerRoles: ["tables.read"] };
    const identity = await verify(
      await token({ scp: "x tables.read", roles: ["contributor"] }),
      settings,
    );
    assert.equal(identity?.role, "reader");
  });

  it("has its audience compared without a trailing slash", async () => {
    assert.ok(await verify(await token({ aud: `${AUDIENCE}/` })));
    assert.ok(await verify(await token({}), { audiences: [`${AUDIENCE}/`] }));
    assert.ok(await verify(await token({ aud: ["https://a.test", AUDIENCE] })));
  });

  const refused: [string, Record<string, unknown>][] = [
    ["of another issuer", { iss: "https://login.test/other" }],
    ["without issuer", { iss: undefined }],
    ["for another audience", { aud: "https://storage.azure.com.test" }],
    ["without audience", { aud: undefined }],
    ["that has expired", { exp: NOW_S - 61 }],
    ["that never expires", { exp: undefined }],
    ["that is not valid yet", { nbf: NOW_S + 61 }],
  ];
  for (const [title, claims] of refused) {
    it(`is refused when it is one ${title}`, async () => {
      assert.equal(await verify(await token(claims)), undefined);
    });
  }

  it("is accepted within the clock tolerance", async () => {
    assert.ok(await verify(await token({ exp: NOW_S - 59, nbf: NOW_S + 59 })));
  });

  it("is refused when another key signed it", async () => {
    assert.equal(await verify(await token({}, theirs.privateKey)), undefined);
  });

  it("is refused when it has a critical header that the server does not know", async () => {
    const name = "https://a.test/new";
    const signed = (header: object) =>
      new SignJWT({ iss: ISSUER, aud: AUDIENCE, sub: "ann", exp: NOW_S + 600 })
        .setProtectedHeader({ alg: "RS256", kid: "ours", [name]: 1, ...header })
        .sign(ours.privateKey, { crit: { [name]: true } });
    assert.equal((await verify(await signed({})))?.subject, "ann");
    assert.equal(await verify(await signed({ crit: [name] })), undefined);
  });

  it("is refused when any of its characters is changed", async () => {
    const good = await token({});
    assert.equal((await verify(good))?.subject, "ann");
    // The last one also encodes bits that do not count.
    for (let index = 0; index < good.length - 1; index++) {
      const changed = good[index] === "A" ? "B" : "A";
      const bad = good.slice(0, index) + changed + good.slice(index + 1);
      assert.equal(await verify(bad), undefined, `Character ${index} of ${good}`);
    }
  });

  it("is refused when it is unsigned, or signed with the public key as an HMAC secret", async () => {
    const payload = Buffer.from(JSON.stringify({ iss: ISSUER, aud: AUDIENCE, exp: NOW_S + 60 }));
    const header = Buffer.from('{"alg":"none"}').toString("base64url");
    assert.equal(await verify(`${header}.${payload.toString("base64url")}.`), undefined);
    const known = Buffer.from(JSON.stringify(jwk));
    const hmac = await token({}, known, "HS256");
    assert.equal(await verify(hmac), undefined);
  });

  it("is refused when it is signed with an HMAC secret from the issuer's key set", async () => {
    const secret = Buffer.alloc(32, 7);
    const published = { kty: "oct", kid: "ours", alg: "HS256", k: secret.toString("base64url") };
    const keys = { keys: [published] };
    assert.equal(await verify(await token({}, secret, "HS256"), { keys }), undefined);
  });

  for (const text of ["", "x", "a.b.c", "....", "e30.e30.e30"]) {
    it(`is refused when it is ${JSON.stringify(text)}`, async () => {
      assert.equal(await verify(text), undefined);
    });
  }
});

describe("the keys of an issuer", () => {
  it("are fetched from its URL; while that does not answer, requests get ServerBusy", async () => {
    const server = createServer((_, response) => {
      response.setHeader("Content-Type", "application/json").end(JSON.stringify({ keys: [jwk] }));
    }).listen(0, "127.0.0.1");
    await once(server, "listening");
    const { port } = server.address() as AddressInfo;
    try {
      const keys = new URL(`http://127.0.0.1:${port}/keys`);
      assert.ok(await verify(await token({}), { keys }));
      assert.equal(await verify(await token({}, theirs.privateKey), { keys }), undefined);
    } finally {
      server.closeAllConnections();
      server.close();
      await once(server, "close");
    }
    const keys = new URL(`http://127.0.0.1:${port}/keys`);
    await assert.rejects(async () => verify(await token({}), { keys }), { code: "ServerBusy" });
  });
});

describe("a static token", () => {
  const staticTokens = [{ token: "let-me-in", subject: "test", role: "contributor" as const }];

  it("is accepted as it was configured, character for character", async () => {
    const verifier = new JwtVerifier({ ...settingsWith({}), staticTokens }, frozenAt(NOW));
    assert.deepEqual(await verifier.verify("let-me-in"), {
      kind: "bearer",
      role: "contributor",
      subject: "test",
    });
    assert.equal(await verifier.verify("let-me-i"), undefined);
  });
});

describe("the challenge", () => {
  it("contains the configured authorization URI and resource id", () => {
    const settings = {
      ...settingsWith({}),
      authorizationUri: "https://login.test",
      resourceId: "https://data.test",
    };
    assert.equal(
      new JwtVerifier(settings, frozenAt(NOW)).challenge,
      "Bearer authorization_uri=https://login.test resource_id=https://data.test",
    );
  });
});

function token(
  claims: Record<string, unknown>,
  key: CryptoKey | Uint8Array = ours.privateKey,
  alg = "RS256",
): Promise<string> {
  return new SignJWT({ iss: ISSUER, aud: AUDIENCE, sub: "ann", exp: NOW_S + 600, ...claims })
    .setProtectedHeader({ alg, kid: "ours" })
    .sign(key);
}

function verify(text: string, issuer: Partial<IssuerSettings> = {}) {
  return new JwtVerifier(settingsWith(issuer), frozenAt(NOW)).verify(text);
}

function settingsWith(issuer: Partial<IssuerSettings>): BearerSettings {
  return {
    ...DEFAULT_AUTHORITY,
    staticTokens: [],
    allowHttp: false,
    clockToleranceS: 60,
    issuers: [
      {
        issuer: ISSUER,
        audiences: [AUDIENCE],
        keys: { keys: [jwk] },
        rolesClaim: "roles",
        readerRoles: ["Storage Table Data Reader", "reader"],
        contributorRoles: ["Storage Table Data Contributor", "contributor"],
        ...issuer,
      },
    ],
  };
}
