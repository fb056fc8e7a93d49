import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { after, before, describe, it } from "node:test";
import { fileURLToPath } from "node:url";
import { DEVELOPMENT_ACCOUNT } from "@rowhouse/server/auth/accounts";
import { type RowhouseProcess, startRowhouse, withFolder } from "../support/rowhouse-process.ts";
import { KEY } from "../wire/storage-wire.ts";
import { TableWire } from "../wire/table-wire.ts";
import { fillTable } from "./watched-server.ts";

const MONITORING = fileURLToPath(new URL("../../docs/monitoring/", import.meta.url));
const CLIENTS = 8;
const QUERIES = 5;

describe("Metrics with two workers", () => {
  let page = "";
  let again = "";

  before(() =>
    withFolder(async (folder) => {
      const flags = ["--workers", "2", "--metrics", "--silent"];
      const server = await startRowhouse(join(folder, "data"), flags);
      try {
        await send(server);
        const url = `${server.tableUrl}/_rowhouse/metrics`;
        // Without keep-alive, consecutive scrapes are answered by different workers.
        const scrape = () => fetch(url, { headers: { Connection: "close" } });
        [page, again] = await Promise.all([
          (await scrape()).text(),
          scrape().then((answer) => answer.text()),
        ]);
      } finally {
        assert.equal(await server.stop(), 0);
      }
    }),
  );

  it("are one page for all workers, whichever of them answers", () => {
    // And the one that found nothing.
    const queries = `rowhouse_queries_total{class="point query"} ${CLIENTS * QUERIES + 1}`;
    for (const text of [page, again]) {
      assert.ok(text.includes(`\n${queries}\n`), queries);
      assert.match(text, /^rowhouse_requests_total\{.*operation="QueryEntity",status="200"\} 40$/m);
      assert.match(text, /^rowhouse_connections_opened_total (9|1\d)$/m);
      assert.match(text, /^rowhouse_processes 2$/m);
    }
  });

  it("are those of the process, its version and the disk, too", () => {
    assert.match(page, /^rowhouse_build_info\{version="[\d.]+",node="v[\d.]+"\} 1$/m);
    for (const name of [
      "process_resident_memory_bytes",
      "process_cpu_user_seconds_total",
      "nodejs_eventloop_lag_p99_seconds",
      "rowhouse_start_time_seconds",
      "rowhouse_engine_file_bytes",
      "rowhouse_engine_unused_bytes",
      "rowhouse_disk_free_bytes",
      "rowhouse_durable_machines",
    ]) {
      assert.match(page, new RegExp(`^${name} \\S+$`, "m"), name);
    }
  });

  it("contain every metric that the dashboard and the alert rules use", () => {
    const served = new Set(Array.from(page.matchAll(/^([a-z]\w+)[{ ]/gm), ([, name]) => name));
    for (const file of ["grafana.json", "alerts.yaml"]) {
      const text = readFileSync(`${MONITORING}${file}`, "utf8");
      const used = Array.from(
        text.matchAll(/\b(?:rowhouse|nodejs|process)_\w+/g),
        ([name]) => name,
      );
      assert.ok(used.length > 5, file);
      for (const name of used) assert.ok(served.has(name), `${name} of ${file} is not served`);
    }
  });

  after(() => {
    page = "";
  });
});

describe("The alert rules", () => {
  it("fire when they should and not before, as promtool says where Debian's prometheus is installed", (t) => {
    const options = { cwd: MONITORING, encoding: "utf8" } as const;
    const ran = spawnSync("promtool", ["test", "rules", "alerts-test.yaml"], options);
    if (ran.error) {
      t.diagnostic("promtool is not installed, so the rules were only compared with a scrape");
      return;
    }
    assert.equal(ran.status, 0, ran.stdout + ran.stderr);
  });
});

/** Each client has its own connection; the workers take connections in turn. */
async function send(server: RowhouseProcess): Promise<void> {
  const account = DEVELOPMENT_ACCOUNT.name;
  const open = () => new TableWire({ url: `${server.tableUrl}/${account}`, account, key: KEY });
  const first = open();
  await fillTable(first, "People", [{ PartitionKey: "p", RowKey: "r" }]);
  await first.send("GET", "/People(PartitionKey='p',RowKey='none')");
  first.close();
  for (let i = 0; i < CLIENTS; i++) {
    const wire = open();
    for (let k = 0; k < QUERIES; k++) {
      const answer = await wire.send("GET", "/People(PartitionKey='p',RowKey='r')");
      assert.equal(answer.status, 200);
    }
    wire.close();
  }
}
