import assert from "node:assert/strict";
import { mkdtempSync, rmSync } from "node:fs";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, describe, it } from "node:test";
import { AzureNamedKeyCredential, TableServiceClient } from "@azure/data-tables";
import { connect, entity, f, k } from "@rowhouse/patterns";
import { azureTables } from "@rowhouse/patterns/azure-tables";
import { batch } from "@rowhouse/patterns/batch";
import { memory } from "@rowhouse/patterns/testing";
import { parseAccounts } from "@rowhouse/server/auth/account-settings";
import { MemoryEngine } from "@rowhouse/server/engine/memory-engine";
import { type RunningServer, startServer } from "@rowhouse/server/server";
import { buildSync } from "esbuild";
import { and, compare, inRange } from "../../patterns/src/ports/filter.ts";
import { testTablesPort } from "../../patterns/src/ports/tables-conformance.ts";

const KEY =
  "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw==";
let server: RunningServer;

before(async () => {
  server = await startServer({
    accounts: parseAccounts(undefined),
    engine: new MemoryEngine(),
    listen: { table: { host: "127.0.0.1", port: 0 } },
  });
});

after(() => server.close());

type Client = Pick<
  typeof import("@azure/data-tables"),
  "AzureNamedKeyCredential" | "TableServiceClient"
>;

function open(client: Client = { AzureNamedKeyCredential, TableServiceClient }) {
  const credential = new client.AzureNamedKeyCredential("devstoreaccount1", KEY);
  const url = `${server.urls.table}/devstoreaccount1`;
  const service = new client.TableServiceClient(url, credential, { allowInsecureConnection: true });
  return azureTables(service, { profile: "rowhouse" });
}

/** As in a program that has another copy of the package than the one that the library finds. */
function anotherCopy(): Client {
  const folder = mkdtempSync(join(tmpdir(), "rowhouse-client-"));
  const outfile = join(folder, "data-tables.cjs");
  const entryPoints = [createRequire(import.meta.url).resolve("@azure/data-tables")];
  buildSync({ entryPoints, outfile, bundle: true, platform: "node", logLevel: "error" });
  const copy: Client = createRequire(import.meta.url)(outfile);
  rmSync(folder, { recursive: true });
  return copy;
}

testTablesPort({ name: "The official client against Rowhouse", open: () => open() });

const copy = anotherCopy();
testTablesPort({ name: "Another copy of the official client", open: () => open(copy) });

describe("The official client against Rowhouse", () => {
  it("accepts the batches that the library fills, however long their property names", async () => {
    const names = Array.from({ length: 245 }, (_, i) => `${"measured".repeat(15)}${i}`);
    const doubles = Object.fromEntries(names.map((name) => [name, f.double()]));
    const Wide = entity("Wide", {
      version: 1,
      fields: { p: f.string(), id: f.int32(), ...doubles },
      key: { partition: [k.str("p")], row: [k.uint("id", 6)] },
    });
    const db = connect({ tables: open() });
    await db.createTables(Wide);
    const values = Object.fromEntries(names.map((name) => [name, 0.5]));
    const results = await batch(db, (plan) => {
      for (let id = 0; id < 100; id++) plan.upsert(Wide, { p: "p", id, ...values });
    });
    assert.ok(results.every(({ ok }) => ok));
  });

  it("reports how many entities were read for a page, as the memory endpoint does", async () => {
    for (const port of [open(), memory().tables]) {
      await port.createTable("Inspected");
      const rows = Array.from({ length: 10 }, (_, i) => ({
        kind: "insert" as const,
        partitionKey: "p",
        rowKey: `${i}`,
        properties: { even: { type: "Boolean" as const, value: i % 2 === 0 } },
      }));
      await port.commit("Inspected", rows);
      const filter = and(
        inRange("p", { from: "3" }),
        compare("even", "eq", { type: "Boolean", value: true }),
      )!;
      const { entities, inspected } = await port.query("Inspected", { filter });
      assert.deepEqual([entities.length, inspected], [3, 7]);
    }
  });
});
