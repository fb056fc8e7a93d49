import assert from "node:assert/strict";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, it } from "node:test";
import { TableClient } from "@azure/data-tables";
import { RowhouseCommand } from "../support/rowhouse-command.ts";
import { startRowhouse, withFolder } from "../support/rowhouse-process.ts";

const MARK = "the text in which a bit will flip";

describe("A bit that flipped on the disk", () => {
  it("is a 500 with its own code, a log line that names the entity, and a finding of verify and backup", () =>
    withFolder(async (folder) => {
      let server = await startRowhouse(folder, ["--silent"]);
      const open = () =>
        TableClient.fromConnectionString(server.connectionString, "Sample", {
          allowInsecureConnection: true,
          retryOptions: { maxRetries: 0 },
        });
      await open().createTable();
      await open().createEntity({ partitionKey: "p", rowKey: "good", text: "as it was" });
      await open().createEntity({ partitionKey: "p", rowKey: "bad", text: MARK });
      await server.stop();

      const file = join(folder, "data.mdb");
      const bytes = readFileSync(file);
      // Also in older copies of the page.
      for (let at = bytes.indexOf(MARK); at >= 0; at = bytes.indexOf(MARK, at + 1))
        bytes[at + 4]! ^= 1;
      writeFileSync(file, bytes);

      const log = join(folder, "log");
      server = await startRowhouse(folder, ["--silent", "--debug", log]);
      const damaged = { statusCode: 500, code: "StoredDataDamaged" };
      assert.equal((await open().getEntity("p", "good")).text, "as it was");
      for (const request of [
        open().getEntity("p", "bad"),
        open().listEntities().next(),
        open().updateEntity({ partitionKey: "p", rowKey: "bad", more: 1 }, "Merge"),
        open().submitTransaction([["update", { partitionKey: "p", rowKey: "bad", more: 1 }]]),
      ]) {
        await assert.rejects(request, ({ statusCode, code, details }) => {
          const found = details?.odataError?.code ?? code;
          assert.deepEqual({ statusCode, code: found }, damaged);
          return true;
        });
      }
      const verify = await finished(["verify", "--location", folder]);
      assert.equal(verify.code, 1);
      const entity = 'entity "p" / "bad" of table Sample of account devstoreaccount1';
      assert.match(verify.stdout, new RegExp(`^damaged: ${entity}$`, "m"));
      const backup = await finished(["backup", join(folder, "copy"), "--location", folder]);
      assert.equal(backup.code, 1);
      assert.match(backup.stdout, new RegExp(`not in the copy: ${entity}$`, "m"));
      assert.equal((await finished(["verify", "--location", join(folder, "copy")])).code, 0);
      assert.match(
        readFileSync(log, "utf8"),
        /"entry":"entity \\"p\\" \/ \\"bad\\" of table 0 of account 0"/,
      );
      // A new value replaces it.
      await open().upsertEntity({ partitionKey: "p", rowKey: "bad", text: "new" }, "Replace");
      assert.equal((await open().getEntity("p", "bad")).text, "new");
      await server.stop();
    }));
});

async function finished(args: readonly string[]) {
  const command = new RowhouseCommand(args);
  const code = await command.exited;
  return { code, stdout: command.stdout };
}
