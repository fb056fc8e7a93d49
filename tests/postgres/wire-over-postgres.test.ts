import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, it } from "node:test";
import { fileURLToPath } from "node:url";
import { LocalServer, testServer } from "@rowhouse/server/engine/postgres/test-server";
import { startRowhouse, withFolder } from "../support/rowhouse-process.ts";

const wire = fileURLToPath(new URL("../wire", import.meta.url));

/** The wire tests that talk to whatever `TARGET` names. */
const files = readdirSync(wire)
  .filter((name) => name.startsWith("table-") && name.endsWith(".test.ts"))
  .map((name) => join(wire, name))
  .filter((file) => readFileSync(file, "utf8").includes("WireTarget.open"));

/** Those that start a server of their own, over what `TEST_ENGINE` names. Routes and CORS ask no engine. */
const ownServer = ["queue-client", "queue-exchanges", "queue-operations", "blob-exchanges"].map(
  (name) => join(wire, `${name}.test.ts`),
);

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
        const { code, output } = await runTests(files, {
          TARGET: `${server.tableUrl}/devstoreaccount1`,
        });
        assert.equal(code, 0, output.slice(-4000));
      } finally {
        await server.stop();
        await database.dropDatabase(url);
        await database.stop();
      }
    });
  });

  it(`passes those of queues and blobs (${ownServer.length} files)`, async () => {
    const database =
      process.env.POSTGRES_URL === undefined ? await LocalServer.create() : undefined;
    database?.configure({ fsync: "off" });
    await database?.start();
    try {
      const server = database ? { POSTGRES_URL: database.url() } : {};
      const { code, output } = await runTests(ownServer, { TEST_ENGINE: "postgres", ...server });
      assert.equal(code, 0, output.slice(-4000));
    } finally {
      await database?.remove();
    }
  });
});

async function runTests(
  files: readonly string[],
  settings: Readonly<Record<string, string>>,
): Promise<{ code: number | null; output: string }> {
  const { NODE_TEST_CONTEXT: _, ...environment } = process.env;
  const runner = spawn(
    process.execPath,
    ["--conditions=source", "--import", "tsx", "--test", "--test-concurrency=2", ...files],
    { stdio: ["ignore", "pipe", "inherit"], env: { ...environment, ...settings } },
  );
  const exited = new Promise<number | null>((resolve) => runner.once("exit", resolve));
  let output = "";
  for await (const chunk of runner.stdout) output += chunk;
  return { code: await exited, output };
}
