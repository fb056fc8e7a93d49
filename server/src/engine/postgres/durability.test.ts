import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { type DurabilityClass, durabilityOf } from "./durability.ts";
import { type Dialect, dialectOf, type SettingName } from "./server-facts.ts";

function classOf(
  settings: Partial<Record<SettingName, string>>,
  dialect: Dialect = "postgres",
): DurabilityClass {
  return durabilityOf({
    dialect,
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

  it("calls servers with their own consensus a majority, whatever fsync is", () => {
    assert.equal(classOf({ fsync: "off" }, "cockroach"), "majority");
    assert.equal(classOf({}, "yugabyte"), "majority");
  });
});

describe("dialectOf", () => {
  it("recognizes each relative of PostgreSQL by its version text", () => {
    assert.equal(dialectOf("PostgreSQL 18.4 on x86_64", undefined), "postgres");
    assert.equal(dialectOf("PostgreSQL 17.2 on x86_64", "13.2"), "citus");
    assert.equal(dialectOf("CockroachDB CCL v25.1.0", undefined), "cockroach");
    assert.equal(dialectOf("PostgreSQL 15.2-YB-2025.2 on x86_64", undefined), "yugabyte");
  });
});
