import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { type Durability, type DurabilityClass, durabilityOf } from "./durability.ts";
import type { SettingName } from "./server-facts.ts";

function classOf(settings: Partial<Record<SettingName, string>>): DurabilityClass {
  return durabilityWith(settings).class;
}

function durabilityWith(settings: Partial<Record<SettingName, string>>): Durability {
  return durabilityOf({
    dialect: "postgres",
    version: "",
    clockMicroseconds: 0,
    isTableUnlogged: false,
    settings: {
      fsync: "on",
      full_page_writes: "on",
      synchronous_commit: "on",
      synchronous_standby_names: "",
      default_transaction_isolation: "read committed",
      max_connections: "100",
      deadlock_timeout: "1s",
      ...settings,
    },
  });
}

describe("What --require-durability requires", () => {
  const keeps = (synchronous_standby_names: string, synchronous_commit = "on") =>
    [...durabilityWith({ synchronous_standby_names, synchronous_commit }).keeps].join(" ");

  it("is kept if commits wait for standbys to flush, or for most of those that are named", () => {
    assert.equal(keeps(""), "");
    assert.equal(keeps("ANY 1 (*)", "local"), "");
    assert.equal(keeps("ANY 1 (*)", "remote_write"), "");
    assert.equal(keeps("ANY 1 (*)"), "standby");
    assert.equal(keeps("*"), "standby");
    assert.equal(keeps("ANY 1 (b, c)"), "standby majority");
    assert.equal(keeps('b, "c"'), "standby majority");
    assert.equal(keeps("ANY 1 (b, c, d)"), "standby");
    assert.equal(keeps("any 2 (b, c, d, e)"), "standby majority");
    assert.equal(keeps("2 (b, c, d, e)", "remote_apply"), "standby majority");
  });
});

describe("durabilityOf", () => {
  const standby = { synchronous_standby_names: "ANY 1 (*)" };
  const cases: [DurabilityClass, Partial<Record<SettingName, string>>][] = [
    ["none", { fsync: "off" }],
    ["none", { synchronous_commit: "off" }],
    ["none", { ...standby, synchronous_commit: "off" }],
    ["disk", {}],
    ["disk", { synchronous_commit: "local" }],
    ["disk", { ...standby, synchronous_commit: "local" }],
    ["disk", { synchronous_commit: "remote_apply" }],
    ["two machines", standby],
    ["two machines, visible", { ...standby, synchronous_commit: "remote_apply" }],
    ["two machines, one in memory", { ...standby, synchronous_commit: "remote_write" }],
  ];
  const MACHINES: Readonly<Record<DurabilityClass, number>> = {
    none: 0,
    disk: 1,
    "two machines, one in memory": 1,
    "two machines": 2,
    "two machines, visible": 2,
  };
  for (const [expected, settings] of cases) {
    it(`calls ${JSON.stringify(settings)} "${expected}"`, () => {
      assert.equal(classOf(settings), expected);
      assert.equal(durabilityWith(settings).machines, MACHINES[expected]);
    });
  }
});
