import assert from "node:assert/strict";
import { readdirSync, truncateSync } from "node:fs";
import { join } from "node:path";
import { after, before, describe, it } from "node:test";
import { Installed } from "./installed.ts";

let user: Installed;
before(async () => {
  user = await Installed.open();
});
after(() => user.remove());

const path = (name: string) => join(user.folder.path, name);

describe("Somebody who runs it for years", () => {
  it("looks at its health and metrics, backs it up, kills it, and restores the backup", async () => {
    const server = await user.serve(["--location", "data", "--metrics"]);
    try {
      assert.match(server.printed, /^Rowhouse [\d.]+ is starting; its data is in \S+\/data$/m);
      const { origin } = new URL(server.tables);
      assert.match(await user.rowhouse(["healthcheck", "--against", origin]), /"status":"ready"/);
      await user.rowhouse(["backup", "--location", "data", "--to", "backups", "--keep", "2"]);
      const metrics = await (await fetch(`${origin}/_rowhouse/metrics`)).text();
      assert.match(metrics, /^process_resident_memory_bytes \d+/m);
      assert.match(metrics, /^rowhouse_backup_ended_seconds [1-9]/m);
    } finally {
      assert.equal(await server.stop("SIGKILL"), null);
    }
    const [backup = ""] = readdirSync(path("backups"));
    await user.rowhouse(["restore", `backups/${backup}`, "--location", "restored"]);
    assert.match(await user.rowhouse(["verify", "--location", "restored"]), /; 0 damaged/);
    const restored = await user.serve(["--location", "restored"]);
    assert.equal(await restored.stop(), 0);
  });

  it("is told what to do about a port that is taken, a torn file, and a server that is gone", async () => {
    const server = await user.serve(["--inMemoryPersistence"]);
    const { port, origin } = new URL(server.tables);
    const taken = ["serve", "--tableOnly", "--inMemoryPersistence", "--tablePort", port];
    assert.match(await user.rowhouse(taken, 2), /has that port: stop it, or choose another/);
    assert.equal(await server.stop(), 0);
    const gone = ["export", "--from", `${origin}/devstoreaccount1`, "--to", "out"];
    assert.match(await user.rowhouse(gone, 2), /Start a server there \(rowhouse serve\), or name/);
    const wrong = ["export", "--from", "AccountName=a;AccountKee=b", "--to", "out"];
    assert.match(await user.rowhouse(wrong, 2), /no AccountName with AccountKey/);
    truncateSync(path("restored/data.mdb"), 5000);
    const torn = await user.rowhouse(["serve", "--location", "restored"], 2);
    assert.match(torn, /data\.mdb lacks its second meta page\. Restore it from a backup/);
  });
});
