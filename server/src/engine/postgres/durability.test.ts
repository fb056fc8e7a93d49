import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { type DurabilityClass, durabilityOf } from "./durability.ts";
import type { SettingName } from "./server-facts.ts";

function classOf(settings: Partial<Record<SettingName, string>>): DurabilityClass {
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
  }).class;
}

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
  for (const [expected, settings] of cases) {
    it(`calls ${JSON.stringify(settings)} "${expected}"`, () => {
      assert.equal(classOf(settings), expected);
    });
  }
});
