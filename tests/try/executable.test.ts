import assert from "node:assert/strict";
import { type ChildProcess, spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, readdirSync, rmSync } from "node:fs";
import { arch, tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { after, before, describe, it } from "node:test";
import { fileURLToPath } from "node:url";
import { TableClient } from "@azure/data-tables";
import { ARCHITECTURES, buildExecutable } from "../../tools/release/executable.ts";
import { run } from "../../tools/release/run.ts";
import { TRIES_ALL } from "./empty-folder.ts";

const KEY =
  "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw==";

/** With Debian's qemu-user-static, another architecture's executables run here, over that architecture's libraries. */
const EMULATOR = "qemu-aarch64-static";
const LIBRARIES = "libc6,libstdc++6,libgcc-s1,libatomic1";
const missing = [EMULATOR, "mmdebstrap"].filter((tool) => spawnSync(tool, ["--version"]).error);

if (TRIES_ALL) {
  for (const architecture of ARCHITECTURES) {
    const isForeign = architecture !== arch();
    describe(`The executable for ${architecture}`, () => {
      const data = mkdtempSync(join(tmpdir(), "rowhouse-executable-"));
      const folder = fileURLToPath(
        new URL(`../../.build/try-${process.pid}-${architecture}`, import.meta.url),
      );
      let command: readonly string[] = [];
      before(async () => {
        const [executable = ""] = await buildExecutable(folder, architecture);
        command = [executable];
        if (!isForeign || missing.length > 0) return;
        const libraries = join(folder, "libraries");
        run("mmdebstrap", [
          ...[`--architectures=${architecture}`, "--variant=extract", `--include=${LIBRARIES}`],
          ...["bookworm", libraries],
        ]);
        command = [EMULATOR, "-L", libraries, executable];
      });
      after(() => {
        for (const each of [data, folder]) rmSync(each, { recursive: true, force: true });
      });

      if (isForeign) {
        it("serves from memory, emulated; its data on disk is tried where it runs itself", async (t) => {
          if (missing.length > 0) return t.diagnostic(`built, not run here without ${missing}`);
          t.diagnostic("LMDB's native part is not tried: it crashes under qemu's user emulation");
          const server = await serve(command, ["--inMemoryPersistence"]);
          await server.table.createTable();
          await server.table.createEntity({ partitionKey: "p", rowKey: "r" });
          assert.equal((await server.table.getEntity("p", "r")).rowKey, "r");
          server.child.kill("SIGTERM");
          assert.deepEqual(await server.exited, [0, null]);
        });
        return;
      }

      for (const workers of ["1", "2"]) {
        it(`keeps what ${workers} process(es) acknowledged before they were killed`, async () => {
          const flags = ["--location", join(data, workers), "--workers", workers];
          const first = await serve(command, flags);
          await first.table.createTable();
          await first.table.createEntity({ partitionKey: "p", rowKey: "r" });
          process.kill(-first.child.pid!, "SIGKILL");
          await first.exited;
          const second = await serve(command, flags);
          assert.equal((await second.table.getEntity("p", "r")).rowKey, "r");
          second.child.kill("SIGTERM");
          assert.deepEqual(await second.exited, [0, null]);
        });
      }

      it("leaves nothing in the folder for temporary files", () => {
        assert.deepEqual(
          readdirSync(tmpdir()).filter((name) => name.startsWith(".rowhouse-")),
          [],
        );
      });
    });
  }
}

interface Serving {
  readonly child: ChildProcess;
  readonly exited: Promise<unknown[]>;
  readonly table: TableClient;
}

async function serve(
  [file = "", ...args]: readonly string[],
  flags: readonly string[],
): Promise<Serving> {
  const child = spawn(file, [...args, "serve", "--tableOnly", "--tablePort", "0", ...flags], {
    stdio: ["ignore", "pipe", "inherit"],
    env: { ...process.env, AZURITE_ACCOUNTS: "" },
    // Its workers are killed with it.
    detached: true,
  });
  const exited = once(child, "exit");
  for await (const line of createInterface({ input: child.stdout! })) {
    const [, url] = /Table service is successfully listening at (\S+)/.exec(line) ?? [];
    if (!url) continue;
    const connection = `DefaultEndpointsProtocol=http;AccountName=devstoreaccount1;AccountKey=${KEY};TableEndpoint=${url}/devstoreaccount1`;
    const options = { allowInsecureConnection: true };
    return { child, exited, table: TableClient.fromConnectionString(connection, "Kept", options) };
  }
  throw new Error("It ended before it listened.");
}
