import assert from "node:assert/strict";
import { chmodSync, mkdirSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, it } from "node:test";
import { selfSignedCertificate } from "../support/certificate.ts";
import { RowhouseCommand } from "../support/rowhouse-command.ts";
import { withFolder } from "../support/rowhouse-process.ts";

const LISTENING = /^Azurite Table service is successfully listening at (\S+)$/m;
const FREE = ["--tablePort", "0", "--queuePort", "0", "--blobPort", "0"];

describe("rowhouse healthcheck", () => {
  it("exits with 0 if the server is ready, also with a certificate of its own, and with 1 if it is gone", () =>
    withFolder(async (folder) => {
      const { cert, key } = selfSignedCertificate(new Date());
      const files = [join(folder, "c.pem"), join(folder, "k.pem")] as const;
      writeFileSync(files[0], cert);
      writeFileSync(files[1], key);
      const tls = ["--cert", files[0], "--key", files[1]];
      const server = new RowhouseCommand(["--inMemoryPersistence", ...FREE, ...tls]);
      const [, url = ""] = await server.until(LISTENING);
      const check = new RowhouseCommand(["healthcheck", "--against", url]);
      assert.equal(await check.exited, 0, check.stdout + check.stderr);
      assert.match(check.stdout, /"status":"ready"/);
      server.signal("SIGTERM");
      assert.equal(await server.exited, 0);
      const again = new RowhouseCommand(["healthcheck", "--against", url]);
      assert.equal(await again.exited, 1);
      assert.match(again.stdout, /^Nothing serves at https:\S+ \(.*ECONNREFUSED.*\)\.$/m);
    }));
});

/** Only root can give up root. */
const isRoot = process.getuid?.() === 0;

describe("A server started as root with ROWHOUSE_RUN_AS", () => {
  it("reads what only root may read, takes over its data folder, and serves as the other user", async (t) => {
    if (!isRoot) return t.diagnostic("this is not root");
    await withFolder(async (folder) => {
      chmodSync(folder, 0o755);
      const data = join(folder, "data");
      mkdirSync(data, { mode: 0o700 });
      const config = join(folder, "rowhouse.json");
      const accounts = [{ name: "mine", keys: ["c29tZSBrZXk="] }];
      writeFileSync(config, JSON.stringify({ accounts }), { mode: 0o600 });
      const flags = ["--location", data, "--config", config, ...FREE];
      const server = new RowhouseCommand(flags, { ROWHOUSE_RUN_AS: "10001:10002" });
      await server.until(LISTENING);
      const { uid, gid } = statSync(`/proc/${server.pid}`);
      assert.deepEqual([uid, gid], [10001, 10002]);
      const stored = statSync(join(data, "data.mdb"));
      assert.deepEqual([stored.uid, statSync(data).uid], [10001, 10001]);
      server.signal("SIGTERM");
      assert.equal(await server.exited, 0, server.stderr);
    });
  });

  it("records with workers, each into a file of its own", async (t) => {
    if (!isRoot) return t.diagnostic("this is not root");
    await withFolder(async (folder) => {
      const file = join(folder, "traffic.jsonl");
      const flags = ["--inMemoryPersistence", ...FREE, "--workers", "1", "--record", file];
      const stored = ["--location", join(folder, "data"), ...FREE, "--workers", "2", "--record"];
      chmodSync(folder, 0o755);
      const environment = { ROWHOUSE_RUN_AS: "10001:10001" };
      for (const [args, files] of [
        [flags, [file]],
        [
          [...stored, file],
          [file, `${file}.2`],
        ],
      ] as const) {
        const server = new RowhouseCommand(args, environment);
        const [, url = ""] = await server.until(LISTENING);
        await fetch(`${url}/devstoreaccount1/Films(PartitionKey='p',RowKey='r')`);
        server.signal("SIGTERM");
        assert.equal(await server.exited, 0, server.stderr);
        assert.doesNotMatch(server.stderr, /recording stopped/);
        assert.deepEqual(
          files.map((each) => statSync(each).uid),
          files.map(() => 10001),
        );
      }
    });
  });

  it("leaves a folder with other things in it as it is", async (t) => {
    if (!isRoot) return t.diagnostic("this is not root");
    await withFolder(async (folder) => {
      chmodSync(folder, 0o755);
      writeFileSync(join(folder, "diary"), "");
      const server = new RowhouseCommand(["--location", folder, ...FREE], {
        ROWHOUSE_RUN_AS: "10001:10001",
      });
      assert.equal(await server.exited, 2);
      assert.match(server.stderr, /cannot start: .*(EACCES|ermission)/);
      assert.deepEqual([statSync(folder).uid, statSync(join(folder, "diary")).uid], [0, 0]);
    });
  });

  it("does not start if that is no user", async (t) => {
    if (!isRoot) return t.diagnostic("this is not root");
    const server = new RowhouseCommand(["--inMemoryPersistence", ...FREE], {
      ROWHOUSE_RUN_AS: "rowhouse",
    });
    assert.equal(await server.exited, 2);
    assert.match(server.stderr, /ROWHOUSE_RUN_AS is "rowhouse"; it must be the numbers/);
  });
});
