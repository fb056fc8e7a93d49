import assert from "node:assert/strict";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, it } from "node:test";
import { readBearerSettings } from "./bearer-settings.ts";
import { SettingsError, SettingsSection } from "./settings-section.ts";

const KEYS = {
  keys: [{ kty: "OKP", crv: "Ed25519", x: "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo" }],
};

describe("bearer settings", () => {
  it("have the documented defaults for everything but the issuer and its keys", () => {
    const { issuers, ...rest } = read({ issuers: [{ issuer: "https://a.test", jwks: KEYS }] });
    assert.deepEqual(rest, {
      staticTokens: [],
      allowHttp: false,
      clockToleranceS: 300,
      authorizationUri: "https://login.microsoftonline.com/common/oauth2/authorize",
      resourceId: "https://storage.azure.com",
    });
    assert.deepEqual(issuers, [
      {
        issuer: "https://a.test",
        audiences: ["https://storage.azure.com"],
        keys: KEYS,
        rolesClaim: "roles",
        readerRoles: ["Storage Table Data Reader", "reader"],
        contributorRoles: ["Storage Table Data Contributor", "contributor"],
      },
    ]);
  });

  it("keep every value that is given", () => {
    const issuer = {
      issuer: "https://a.test",
      audiences: ["https://data.test"],
      rolesClaim: "scp",
      readerRoles: ["tables.read"],
      contributorRoles: ["tables.write"],
    };
    const staticTokens = [
      { token: "r", subject: "ann", role: "reader" },
      { token: "c", subject: "bob", role: "contributor" },
      { token: "n", subject: "eve", role: "none" },
    ];
    const rest = {
      staticTokens,
      allowHttp: true,
      clockToleranceS: 0,
      authorizationUri: "https://login.test",
      resourceId: "https://data.test",
    };
    const written = { issuers: [{ ...issuer, jwks: KEYS }], ...rest };
    assert.deepEqual(read(written), { issuers: [{ ...issuer, keys: KEYS }], ...rest });
  });

  it("accept an issuer's keys as an HTTPS URL, and as an HTTP URL only with allowHttp", () => {
    const [issuer] = read({ issuers: [{ issuer: "i", jwks: "https://a.test/keys" }] }).issuers;
    assert.deepEqual(issuer?.keys, new URL("https://a.test/keys"));
    const plain = { issuers: [{ issuer: "i", jwks: "http://a.test/keys" }] };
    assert.throws(
      () => read(plain),
      /jwks is an http URL; https is expected unless allowHttp is set\.$/,
    );
    assert.ok(read({ ...plain, allowHttp: true }));
  });

  it("read an issuer's keys from a file", () => {
    const folder = mkdtempSync(join(tmpdir(), "rowhouse-bearer-"));
    try {
      const jwks = join(folder, "keys.json");
      const settings = { issuers: [{ issuer: "i", jwks }] };
      assert.throws(() => read(settings), /does not exist or is not JSON\.$/);
      writeFileSync(jwks, "{");
      assert.throws(() => read(settings), /does not exist or is not JSON\.$/);
      writeFileSync(jwks, "{}");
      assert.throws(() => read(settings), /is not a key set;/);
      writeFileSync(jwks, JSON.stringify(KEYS));
      assert.deepEqual(read(settings).issuers[0]?.keys, KEYS);
    } finally {
      rmSync(folder, { recursive: true });
    }
  });

  it("give a static token a default subject", () => {
    const { staticTokens } = read({ staticTokens: [{ token: "t", role: "reader" }] });
    assert.deepEqual(staticTokens, [{ token: "t", subject: "static", role: "reader" }]);
  });

  const wrong: [value: unknown, message: RegExp][] = [
    [{}, /^bearer has neither issuers nor staticTokens; at least one of either is required\.$/],
    [{ issuers: [{ issuer: "i" }] }, /^bearer\.issuers\[0\]\.jwks is not a key set;/],
    [{ issuers: [{ issuer: "i", jwks: "https://" }] }, /jwks is not a valid URL\.$/],
    [
      { issuers: [{ issuer: 5, jwks: KEYS }] },
      /issuer is a number; a non-empty string is expected\.$/,
    ],
    [{ issuers: [{ issuer: "i", jwks: { keys: [1] } }] }, /is not a key set;/],
    [{ issuers: [{ issuer: "i", jwks: { keys: [null] } }] }, /is not a key set;/],
    [{ issuers: [{ issuer: "i", jwks: { keys: [{ kty: 1 }] } }] }, /is not a key set;/],
    [
      { issuers: [{ issuer: "i", jwks: KEYS, audience: "a" }] },
      /^bearer\.issuers\[0\] has audience; allowed are issuer,/,
    ],
    [
      { staticTokens: [{ token: "t", role: "owner" }] },
      /role is "owner"; reader, contributor or none is expected\.$/,
    ],
    [
      { clockToleranceS: -1 },
      /^bearer\.clockToleranceS is a number; a whole number of at least 0 is expected\.$/,
    ],
  ];
  for (const [value, message] of wrong) {
    it(`are refused when they are ${JSON.stringify(value)}`, () => {
      assert.throws(
        () => read(value),
        (error) => error instanceof SettingsError && message.test(error.message),
      );
    });
  }
});

function read(value: unknown) {
  return readBearerSettings(new SettingsSection(value, "bearer"));
}
