import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import { installPostgres } from "./administer.ts";
import { type CheckResult, checkPostgres } from "./check.ts";
import { explainPostgres, judgePlan } from "./explain.ts";
import { openPostgresEngine } from "./postgres-engine.ts";
import { schemaStatements } from "./schema.ts";
import { runAt, type TestServer, testServer } from "./test-server.ts";

describe("The operator's commands", () => {
  let server: TestServer;

  before(async () => {
    server = await testServer();
  });
  after(() => server.stop());

  async function withDatabase(test: (url: string) => Promise<void>): Promise<void> {
    const url = await server.createDatabase();
    try {
      await test(url);
    } finally {
      await server.dropDatabase(url);
    }
  }

  it("print the schema without touching the database", () =>
    withDatabase(async (url) => {
      const report = await installPostgres({ url, apply: false });
      assert.equal(report.format, undefined);
      assert.match(report.sql[0]!, /^CREATE TABLE IF NOT EXISTS rh_kv/);
      assert.match(report.roleSql.join("\n"), /GRANT SELECT, INSERT, UPDATE, DELETE ON rh_kv/);
      assert.match(report.server, /^PostgreSQL/);
    }));

  it("create the schema, even several at once, and then find no problem", () =>
    withDatabase(async (url) => {
      const reports = await Promise.all(
        Array.from({ length: 6 }, () => installPostgres({ url, apply: true })),
      );
      for (const report of reports) assert.equal(report.format, 2);
      assert.deepEqual(problems(await checkPostgres({ url })), []);
    }));

  it("print statements that create the same schema when run by hand", () =>
    withDatabase(async (url) => {
      await runAt(url, (await installPostgres({ url, apply: false })).sql);
      assert.deepEqual(problems(await checkPostgres({ url })), []);
      const engine = await openPostgresEngine({ allowUnsafe: true, url, install: false });
      await engine.close();
    }));

  it("report a missing table, wrong columns and missing rights", () =>
    withDatabase(async (url) => {
      assert.match(problems(await checkPostgres({ url })).join(), /schema.*columns.*rights/);
      await runAt(url, ["CREATE TABLE rh_kv (pk text PRIMARY KEY, sk bytea, ver int, val bytea)"]);
      const found = problems(await checkPostgres({ url })).join("; ");
      assert.match(found, /columns: Found pk text, sk bytea\?, ver integer\?/);
    }));

  it("refuse the schema of a newer release, and say which release to use", () =>
    withDatabase(async (url) => {
      await installPostgres({ url, apply: true });
      await runAt(url, ["UPDATE rh_kv SET val = '3' WHERE pk = '' AND sk = 'schema'"]);
      const which = /Use the release that installed it, or a newer one/i;
      await assert.rejects(installPostgres({ url, apply: true }), which);
      assert.match(problems(await checkPostgres({ url })).join(), which);
      await assert.rejects(openPostgresEngine({ allowUnsafe: true, url }), which);
    }));

  it("report objects that were added to the table, and keys that are not STORAGE PLAIN", () =>
    withDatabase(async (url) => {
      await installPostgres({ url, apply: true });
      await runAt(url, [
        "CREATE INDEX by_version ON rh_kv (ver)",
        "ALTER TABLE rh_kv ADD CONSTRAINT short CHECK (length(val) < 10)",
        "ALTER TABLE rh_kv ALTER COLUMN pk SET STORAGE EXTENDED",
      ]);
      const findings = await checkPostgres({ url });
      const warnings = findings.filter(({ level }) => level === "warning").map(({ text }) => text);
      assert.match(warnings.join("; "), /constraint short, index by_version/);
      assert.match(warnings.join("; "), /STORAGE PLAIN/);
    }));

  it("find no problem in any plan, on an empty table, large partitions and old statistics", () =>
    withDatabase(async (url) => {
      await installPostgres({ url, apply: true });
      const assertPlans = async (when: string) => {
        for (const { statement, problems, plan } of await explainPostgres({ url })) {
          assert.deepEqual(problems, [], `${when}, ${statement}:\n${plan.join("\n")}`);
        }
      };
      // Makes parallel workers look free, as they would for a very large table.
      for (const cost of ["parallel_setup_cost", "parallel_tuple_cost"]) {
        const sql = `ALTER DATABASE ${new URL(url).pathname.slice(1)} SET ${cost} = 0`;
        await runAt(url, [sql]);
      }
      await assertPlans("empty");
      await runAt(url, [
        "INSERT INTO rh_kv SELECT 'p', ('k' || i)::bytea, 1, 'v' FROM generate_series(1, 20000) i",
      ]);
      await assertPlans("grown without statistics");
      await runAt(url, ["ANALYZE rh_kv"]);
      await assertPlans("one large partition");
      await runAt(url, [
        "INSERT INTO rh_kv SELECT ('p' || i)::bytea, 'k', 1, 'v' FROM generate_series(1, 20000) i",
        "ANALYZE rh_kv",
      ]);
      await assertPlans("many small partitions beside it");
    }));
});

describe("judgePlan", () => {
  const good = [
    "Limit",
    "  ->  Index Scan using rh_kv_pkey on rh_kv",
    "    Index Cond: (pk = $1) AND (sk >= $2)",
  ];
  const ordered = { isOrdered: true, isInOnePartition: true };

  it("accepts an index scan on both keys", () => {
    assert.deepEqual(judgePlan(good, ordered, "postgres"), []);
  });

  it("reports a sort, a table scan, and a condition on half the key", () => {
    const sorted = ["Sort", ...good.slice(1)];
    assert.match(judgePlan(sorted, ordered, "postgres").join(), /Sorts/);
    assert.match(judgePlan(["Seq Scan on rh_kv"], ordered, "postgres").join(), /whole table/);
    const half = [...good.slice(0, 2), "    Index Cond: (pk = $1)"];
    assert.match(judgePlan(half, ordered, "postgres").join(), /both keys/);
  });

  it("reports parallel worker processes", () => {
    const helped = ["Gather", "  Workers Planned: 2", ...good];
    assert.match(judgePlan(helped, ordered, "postgres").join(), /processes/);
  });

  it("reports a query of more than one shard for one partition", () => {
    const citus = ["Custom Scan (Citus Adaptive)", "  Task Count: 32", ...good];
    assert.match(judgePlan(citus, ordered, "citus").join(), /more than one shard/);
    const one = citus.map((line) => line.replace("32", "1"));
    assert.deepEqual(judgePlan(one, ordered, "citus"), []);
  });
});

describe("schemaStatements", () => {
  it("distributes the table on Citus only", () => {
    assert.match(schemaStatements("citus").join(), /create_distributed_table\('rh_kv', 'pk'/);
    assert.doesNotMatch(schemaStatements("postgres").join(), /create_distributed_table/);
  });
});

function problems(findings: readonly CheckResult[]): string[] {
  return (
    findings
      // The test server does not flush.
      .filter(({ level, topic }) => level === "problem" && topic !== "durability")
      .map(({ topic, text }) => `${topic}: ${text}`)
  );
}
