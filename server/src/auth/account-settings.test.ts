import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { parseAccounts, readAccounts } from "./account-settings.ts";
import { DEVELOPMENT_ACCOUNT } from "./accounts.ts";
import { SettingsError, SettingsSection } from "./settings-section.ts";

const KEY = Buffer.from("first key").toString("base64");
const OTHER = Buffer.from("second key!").toString("base64");

describe("the accounts named in the environment", () => {
  it("are the development account alone when the variable is unset, empty or blank", () => {
    for (const text of [undefined, "", " ; "]) {
      assert.deepEqual(parseAccounts(text).names, ["devstoreaccount1"]);
      assert.equal(parseAccounts(text).find("devstoreaccount1"), DEVELOPMENT_ACCOUNT);
    }
    assert.equal(DEVELOPMENT_ACCOUNT.keys[0]?.length, 64);
  });

  it("are exactly the accounts listed, without the development account", () => {
    const accounts = parseAccounts(`one1:${KEY}; two2:${KEY}:${OTHER};`);
    assert.deepEqual(accounts.names, ["one1", "two2"]);
    assert.deepEqual(accounts.find("two2")?.keys, [
      Buffer.from("first key"),
      Buffer.from("second key!"),
    ]);
    assert.equal(accounts.find("devstoreaccount1"), undefined);
    assert.equal(accounts.find("One1"), undefined);
  });

  it("cannot have the name of one of the server's own pages", () => {
    for (const name of ["healthz", "readyz"]) {
      assert.throws(() => parseAccounts(`${name}:${KEY}`), /cannot be called/);
    }
  });

  const wrong: [text: string, message: RegExp][] = [
    [
      `ab:${KEY}`,
      /^The name of account 1 has 2 characters; 3 to 24 lower-case letters and digits are allowed\.$/,
    ],
    [`${"a".repeat(25)}:${KEY}`, /^The name of account 1 has 25 characters;/],
    [
      `good:${KEY};Bad:${KEY}`,
      /^The name of account 2 has 3 characters, some of them not allowed;/,
    ],
    [KEY, /^The name of account 1 has 12 characters, some of them not allowed;/],
    ["good", /^Account "good" has 0 keys; 1 or 2 are allowed\.$/],
    [`good:${KEY}:${KEY}:${KEY}`, /^Account "good" has 3 keys;/],
    [`good:${KEY}:`, /^Key 2 of account "good" is empty\.$/],
    ["good:secret!", /^Key 1 of account "good" has 7 characters and is not base64;/],
    ["good:abcde", /^Key 1 of account "good" has 5 characters/],
    [`good:${KEY};good:${OTHER}`, /^Account "good" is configured twice; name each account once\.$/],
  ];
  for (const [text, message] of wrong) {
    it(`are refused with a message that shows no key: ${text}`, () => {
      assert.throws(
        () => parseAccounts(text),
        (error) =>
          error instanceof SettingsError && message.test(error.message) && !showsKey(error.message),
      );
    });
  }
});

describe("the accounts in a configuration file", () => {
  const read = (value: unknown) => readAccounts(new SettingsSection(value, "settings"));

  it("have one or two keys and may be disabled", () => {
    const accounts = read({
      accounts: [
        { name: "one1", keys: [KEY, OTHER] },
        { name: "two2", keys: [KEY], disabled: true },
      ],
    });
    assert.equal(accounts.find("one1")?.keys.length, 2);
    assert.equal(accounts.find("two2")?.disabled, true);
  });

  const wrong: [value: unknown, message: RegExp][] = [
    [null, /^settings is null; an object is expected\.$/],
    [[], /^settings is a list; an object is expected\.$/],
    [{}, /^No account is configured; at least one is required\.$/],
    [{ accounts: "one1" }, /^settings\.accounts is a string; a list is expected\.$/],
    [
      { accounts: [{}] },
      /^settings\.accounts\[0\]\.name is missing; a non-empty string is expected\.$/,
    ],
    [
      { accounts: [{ name: "" }] },
      /^settings\.accounts\[0\]\.name is empty; a non-empty string is expected\.$/,
    ],
    [{ accounts: [{ name: "A1" }] }, /^The name of account 1 has 2 characters; 3 to 24 /],
    [{ accounts: [{ name: "one1" }] }, /^Account "one1" has 0 keys/],
    [
      { accounts: [{ name: "one1", keys: KEY }] },
      /^settings\.accounts\[0\]\.keys is a string; a list of non-empty strings is expected\.$/,
    ],
    [
      { accounts: [{ name: "one1", keys: [7] }] },
      /^settings\.accounts\[0\]\.keys is a list; a list of non-empty strings is expected\.$/,
    ],
    [
      { accounts: [{ name: "one1", keys: [KEY], disabled: 1 }] },
      /disabled is a number; true or false is expected\.$/,
    ],
    [
      { accounts: [{ name: "one1", keys: [KEY], key2: OTHER }] },
      /^settings\.accounts\[0\] has key2; allowed are name, keys, disabled\.$/,
    ],
  ];
  for (const [value, message] of wrong) {
    it(`are refused with a message that shows no key: ${JSON.stringify(value)}`, () => {
      assert.throws(
        () => read(value),
        (error) =>
          error instanceof SettingsError && message.test(error.message) && !showsKey(error.message),
      );
    });
  }
});

function showsKey(message: string): boolean {
  return message.includes(KEY) || message.includes(OTHER) || message.includes("secret");
}
