import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, it } from "node:test";
import { fileURLToPath } from "node:url";
import { testServer } from "@rowhouse/server/engine/postgres/test-server";
import { startRowhouse, withFolder } from "../support/rowhouse-process.ts";

const wire = fileURLToPath(new URL("../wire", import.meta.url));

/** The wire tests that talk to whatever `TARGET` names. */
const files = readdirSync(wire)
  .filter((name) => name.startsWith("table-") && name.endsWith(".test.ts"))
  .map((name) => join(wire, name))
  .filter((file) => readFileSync(file, "utf8").includes("WireTarget.open"));

describe("A front end over PostgreSQL", () => {
  it(`passes the wire tests of tables (${files.length} files)`, async () => {
    assert.ok(files.length > 0, "no wire test was found");
    const database = await testServer();
    const url = await database.createDatabase();
    await withFolder(async (folder) => {
      const server = await startRowhouse(folder, [
        "--silent",
        "--engine",
        url,
        "--allowUnsafeEngine",
      ]);
      try {
        const { code, output } = await runTests(`${server.tableUrl}/devstoreaccount1`);
        assert.equal(code, 0, output.slice(-4000));
      } finally {
        await server.stop();
        await database.dropDatabase(url);
        await database.stop();
      }
    });
  });
});

async function runTests(target: string): Promise<{ code: number | null; output: string }> {
  const { NODE_TEST_CONTEXT: _, ...environment } = process.env;
  const runner = spawn(
    process.execPath,
    ["--conditions=source", "--import", "tsx", "--test", "--test-concurrency=2", ...files],
    { stdio: ["ignore", "pipe", "inherit"], env: { ...environment, TARGET: target } },
  );
  const exited = new Promise<number | null>((resolve) => runner.once("exit", resolve));
  let output = "";
  for await (const chunk of runner.stdout) output += chunk;
  return { code: await exited, output };
}
