import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { describe, it } from "node:test";
import { readAccounts } from "@rowhouse/server/auth/account-settings";
import { readBearerSettings } from "@rowhouse/server/auth/bearer-settings";
import { SettingsSection } from "@rowhouse/server/auth/settings-section";

const page = readFileSync(new URL("../../docs/manual/accounts.md", import.meta.url), "utf8");
const MISSPELT = { misspelt: true };

/** Every kind of object in a configuration file, each with an unknown member. */
const REFUSED = {
  "an account": () => {
    const account = { name: "alpha", keys: ["a2V5"], ...MISSPELT };
    readAccounts(new SettingsSection({ accounts: [account] }, "file"));
  },
  "the bearer settings": () => bearer(MISSPELT),
  "an issuer": () => bearer({ issuers: [{ issuer: "i", jwks: { keys: [] }, ...MISSPELT }] }),
  "a static token": () => bearer({ staticTokens: [{ token: "t", role: "none", ...MISSPELT }] }),
};

function bearer(settings: object): void {
  readBearerSettings(new SettingsSection(settings, "bearer"));
}

describe("The manual's page on accounts", () => {
  for (const [what, refused] of Object.entries(REFUSED)) {
    it(`names every member that ${what} may have`, () => {
      assert.throws(refused, (error: Error) => {
        const allowed = / has misspelt; allowed are (.+)\.$/.exec(error.message)?.[1]?.split(", ");
        assert.ok(allowed, error.message);
        assert.deepEqual(
          allowed.filter((name) => !page.includes(`\`${name}\``) && !page.includes(`"${name}"`)),
          [],
        );
        return true;
      });
    });
  }
});
