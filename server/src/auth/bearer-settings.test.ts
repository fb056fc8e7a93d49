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
  it("fill in what is usual", () => {
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

  it("are all taken as they are written", () => {
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

  it("find keys by URL", () => {
    const [issuer] = read({ issuers: [{ issuer: "i", jwks: "https://a.test/keys" }] }).issuers;
    assert.deepEqual(issuer?.keys, new URL("https://a.test/keys"));
    const plain = { issuers: [{ issuer: "i", jwks: "http://a.test/keys" }] };
    assert.throws(
      () => read(plain),
      /jwks is an http URL; https is expected unless allowHttp is set\.$/,
    );
    assert.ok(read({ ...plain, allowHttp: true }));
  });

  it("find keys in a file", () => {
    const folder = mkdtempSync(join(tmpdir(), "rowhouse-bearer-"));
    try {
      const jwks = join(folder, "keys.json");
      const settings = { issuers: [{ issuer: "i", jwks }] };
      assert.throws(() => read(settings), /cannot be read as JSON\.$/);
      writeFileSync(jwks, "{");
      assert.throws(() => read(settings), /cannot be read as JSON\.$/);
      writeFileSync(jwks, "{}");
      assert.throws(() => read(settings), /is no key set;/);
      writeFileSync(jwks, JSON.stringify(KEYS));
      assert.deepEqual(read(settings).issuers[0]?.keys, KEYS);
    } finally {
      rmSync(folder, { recursive: true });
    }
  });

  it("name tokens for tests", () => {
    const { staticTokens } = read({ staticTokens: [{ token: "t", role: "reader" }] });
    assert.deepEqual(staticTokens, [{ token: "t", subject: "static", role: "reader" }]);
  });

  const wrong: [value: unknown, message: RegExp][] = [
    [{}, /^bearer names no issuer; at least one is expected\.$/],
    [{ issuers: [{ issuer: "i" }] }, /^bearer\.issuers\[0\]\.jwks is no key set;/],
    [{ issuers: [{ issuer: "i", jwks: "https://" }] }, /jwks is a URL that cannot be read\.$/],
    [{ issuers: [{ issuer: 5, jwks: KEYS }] }, /issuer is a number; text is expected\.$/],
    [{ issuers: [{ issuer: "i", jwks: { keys: [1] } }] }, /is no key set;/],
    [{ issuers: [{ issuer: "i", jwks: { keys: [null] } }] }, /is no key set;/],
    [{ issuers: [{ issuer: "i", jwks: { keys: [{ kty: 1 }] } }] }, /is no key set;/],
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
      /^bearer\.clockToleranceS is a number; a whole number from 0 on is expected\.$/,
    ],
  ];
  for (const [value, message] of wrong) {
    it(`are refused: ${JSON.stringify(value)}`, () => {
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
