import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { installPostgres } from "@rowhouse/server/engine/postgres/administer";
import { asDocumentedRole, testServer } from "@rowhouse/server/engine/postgres/test-server";
import { startRowhouse, withFolder } from "../support/rowhouse-process.ts";
import { failuresOf, runTests, targetTests } from "./wire-tests.ts";

describe("A front end over PostgreSQL", () => {
  const files = targetTests();
  it(`passes the wire tests of tables (${files.length} files) with the rights that the manual names`, async () => {
    assert.ok(files.length > 0, "no wire test was found");
    const database = await testServer();
    const url = await database.createDatabase();
    await installPostgres({ url, apply: true });
    const restricted = await asDocumentedRole(url);
    await withFolder(async (folder) => {
      const flags = ["--silent", "--engine", restricted, "--allowUnsafeEngine"];
      const server = await startRowhouse(folder, flags);
      try {
        const target = `${server.tableUrl}/devstoreaccount1`;
        const run = await runTests(files, { TARGET: target });
        assert.equal(run.code, 0, failuresOf(run));
      } finally {
        await server.stop();
        await database.dropDatabase(url);
        await database.stop();
      }
    });
  });
});
