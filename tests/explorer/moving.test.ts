import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, afterEach, before, beforeEach, describe, it } from "node:test";
import { fileURLToPath } from "node:url";
import type { Browser, Page } from "playwright-core";
import { RowhouseCommand } from "../support/rowhouse-command.ts";
import { type RowhouseProcess, startRowhouse } from "../support/rowhouse-process.ts";
import {
  CHROMIUM,
  hasBrowser,
  openBrowser,
  openPage,
  screenshot,
  takesScreenshots,
  violationsOf,
  type WatchedPage,
} from "./browser.ts";
import { clientOf } from "./films.ts";
import { matchesStructure } from "./snapshots.ts";

const root = fileURLToPath(new URL("../..", import.meta.url));
execFileSync(process.execPath, ["explorer/build.mjs"], { cwd: root });

if (!hasBrowser) {
  it(`Files are not tried in a browser: there is none at ${CHROMIUM}.`, () => {});
} else {
  describe("Files in a browser", flows);
}

/** Every type, with the values that a careless copy changes. */
const EVERY_TYPE = [
  '"Text":"a, \\"quoted\\"\\r\\nline, émoji 😀"',
  '"Empty":""',
  '"Formula":"=1+2"',
  '"Int":-7',
  '"Big@odata.type":"Edm.Int64","Big":"9007199254740993"',
  '"Whole":1.0',
  '"Large@odata.type":"Edm.Double","Large":"-Infinity"',
  '"Yes":true',
  '"When@odata.type":"Edm.DateTime","When":"2026-01-02T03:04:05.1234567Z"',
  '"Id@odata.type":"Edm.Guid","Id":"c9da6455-213d-42c9-9a79-3e9149a57833"',
  '"Bytes@odata.type":"Edm.Binary","Bytes":"AQID"',
].join(",");

function flows() {
  let folder: string;
  let server: RowhouseProcess;
  let browser: Browser;
  let opened: WatchedPage;
  let page: Page;
  before(async () => {
    folder = mkdtempSync(join(tmpdir(), "rowhouse-"));
    [server, browser] = await Promise.all([startRowhouse(join(folder, "data")), openBrowser()]);
  });
  after(async () => {
    await browser?.close();
    await server?.stop();
    rmSync(folder, { recursive: true, force: true });
  });
  beforeEach(async () => {
    opened = await openPage(browser);
    ({ page } = opened);
    await page.goto(`${server.tableUrl}/_rowhouse/`);
    await page.getByText("Use the development account").click();
    await page.getByRole("navigation").waitFor();
  });
  afterEach(async () => {
    assert.deepEqual(opened.faults, []);
    await page.context().close();
  });

  const open = async (table: string) => {
    await page.goto(`${server.tableUrl}/_rowhouse/#/t/${table}`);
    await page.getByRole("heading", { name: table }).waitFor();
  };
  const dialog = () => page.getByRole("dialog");
  const button = (name: string | RegExp) => dialog().getByRole("button", { name });
  const accessible = async () => assert.deepEqual(await violationsOf(page), []);
  const write = (name: string, text: string) => {
    writeFileSync(join(folder, name), text);
    return join(folder, name);
  };
  /** Chooses a file for a table, which is made if it is not there. */
  const choose = async (table: string, path: string) => {
    await clientOf(server.connectionString, table).createTable();
    await open(table);
    await page.getByRole("button", { name: "Import…" }).click();
    await dialog()
      .getByLabel(/^A file of JSON lines/)
      .setInputFiles(path);
    await button(/^Import \d/).waitFor();
  };
  const close = async () => {
    await button("Close").click();
    await dialog().waitFor({ state: "detached" });
  };
  const keep = async (press: () => Promise<void>) => {
    const [download] = await Promise.all([page.waitForEvent("download"), press()]);
    const path = join(folder, download.suggestedFilename());
    await download.saveAs(path);
    return path;
  };
  const exportAs = async (format: RegExp, scope?: RegExp) => {
    await page.getByRole("button", { name: "Export…" }).click();
    if (scope) await dialog().getByLabel(scope).check();
    await dialog().getByLabel(format).check();
    const path = await keep(() => button("Export").click());
    return path;
  };
  const linesOf = (path: string) =>
    readFileSync(path, "utf8").replace(/"Timestamp":"[^"]*",?/g, "");

  it("make a table of their own in an account without any, and are imported into one without entities", async () => {
    const path = write("first films (1).csv", "PartitionKey,RowKey,N\na,1,7\n");
    const own = page.getByLabel(/^Make one from a file/);
    await own.waitFor();
    await accessible();
    await own.setInputFiles(path);
    await page.getByRole("heading", { name: "Firstfilms1", exact: true }).waitFor();
    await button(/^Import \d/).click();
    await dialog().getByText("1 entity written, none refused.").waitFor();
    await close();
    await page.getByRole("gridcell", { name: "7" }).waitFor();
    await clientOf(server.connectionString, "Bare").createTable();
    await open("Bare");
    await page.getByRole("button", { name: "Import a file…" }).click();
    await dialog().waitFor();
    await close();
  });

  it("keep every type through JSON lines and typed CSV, and are those of the command line", async () => {
    const lines = [1, 2].map(
      (i) => `{"PartitionKey":"p,${i}","RowKey":"\\"${i}\\"",${EVERY_TYPE}}`,
    );
    const few = '{"PartitionKey":"z","RowKey":"","Text":"alone"}';
    const source = `${[...lines, few].join("\n")}\n`;
    await choose("Types", write("types.jsonl", source));
    await dialog()
      .getByRole("row", { name: /^Big Int64 2 of 3 9007199254740993/ })
      .waitFor();
    await accessible();
    await button(/^Import/).click();
    await dialog().getByText("3 entities written, none refused.").waitFor();
    await close();
    await page.getByText("end of the result").waitFor();
    const json = await exportAs(/^JSON lines/);
    await dialog().getByText("Types.jsonl: 3 entities").waitFor();
    await accessible();
    await matchesStructure(dialog(), "export");
    assert.equal(linesOf(json), source);
    await close();
    const csv = await exportAs(/^typed CSV/);
    await close();
    for (const [format, path] of [
      ["jsonl", json],
      ["csv", csv],
    ] as const) {
      const own = mkdtempSync(join(folder, "cli-"));
      const command = new RowhouseCommand([
        ...["export", "--from", server.connectionString, "--to", own],
        ...["--table", "Types", "--format", format],
      ]);
      assert.equal(await command.exited, 0, command.stderr);
      const made = readFileSync(join(own, `Types.${format}`), "utf8");
      assert.equal(readFileSync(path, "utf8"), made);
    }
    await choose("Again", csv);
    await button(/^Import/).click();
    await dialog().getByText("3 entities written, none refused.").waitFor();
    await close();
    await page.getByText("end of the result").waitFor();
    assert.equal(linesOf(await exportAs(/^JSON lines/)), source);
  });

  it("without types are guessed, tried out, and imported but for what is wrong, which is a file of its own", async () => {
    const rows = [
      "a,1,7,true,2026-01-02T03:04:05Z,007",
      "a,2,8,false,,x",
      "a,3,,true,,",
      "a/b,4,9,,,",
    ];
    const text = `PartitionKey,RowKey,N,Good,At,House\n${rows.join("\n")}\na,5\n`;
    await choose("Guessed", write("guessed.csv", text));
    await dialog().getByText("The file has no types").waitFor();
    assert.equal(await dialog().getByLabel("Type of N").inputValue(), "Edm.Int32");
    assert.equal(await dialog().getByLabel("Type of At").inputValue(), "Edm.DateTime");
    assert.equal(await dialog().getByLabel("Type of House").inputValue(), "Edm.String");
    await dialog().getByLabel("Type of N").selectOption("Int64");
    await button("Try it out").click();
    await dialog()
      .getByText("3 entities would be written, 2 refused. Nothing was written.")
      .waitFor();
    await accessible();
    await matchesStructure(dialog(), "import");
    if (takesScreenshots) await screenshot(page, "explorer-import");
    const client = clientOf(server.connectionString, "Guessed");
    const stored = async () => {
      const found = [];
      for await (const entity of client.listEntities()) found.push(entity);
      return found;
    };
    assert.equal((await stored()).length, 0);
    await button(/^Import/).click();
    await dialog().getByText("3 entities written, 2 refused.").waitFor();
    const refused = readFileSync(
      await keep(() => button("Download what was refused").click()),
      "utf8",
    );
    assert.deepEqual(
      refused
        .trim()
        .split("\n")
        .map((line) => JSON.parse(line))
        .map(({ where, found }) => [where, found]),
      [
        [
          "guessed.csv line 5",
          '{"PartitionKey":"a/b","RowKey":"4","N@odata.type":"Edm.Int64","N":"9"}',
        ],
        ["guessed.csv line 6", "a,5"],
      ],
    );
    await close();
    assert.deepEqual(
      (await stored()).map(({ rowKey, N, Good, House }) => [rowKey, N, Good, House]),
      [
        ["1", 7n, true, "007"],
        ["2", 8n, false, "x"],
        ["3", undefined, true, undefined],
      ],
    );
  });

  it("without keys get them from columns that are chosen, here as on the command line", async () => {
    const rows = ["1984,Dune,7", "1984,,8", "1985,Dune,9", "1984,Dune,10", "19/85,Alien,11"];
    const path = write("keyless.csv", `year,title,N\n${rows.join("\n")}\n`);
    await choose("Keyless", path);
    await dialog().getByText("The file has no PartitionKey and no RowKey").waitFor();
    assert.equal(await button(/^Import/).isDisabled(), true);
    assert.equal(await button("Try it out").isDisabled(), true);
    await accessible();
    await dialog().getByLabel("PartitionKey").selectOption("year");
    await dialog().getByLabel("RowKey").selectOption("title");
    await dialog().getByText("2 of the first 5 records would be refused: line 3: it has").waitFor();
    await dialog().getByText("First: 1984 / Dune, 1985 / Dune, 19/85 / Alien.").waitFor();
    await accessible();
    await button("Try it out").click();
    await dialog()
      .getByText("2 entities would be written, 3 refused. Nothing was written.")
      .waitFor();
    await button(/^Import/).click();
    await dialog().getByText("2 entities written, 3 refused.").waitFor();
    const here = readFileSync(
      await keep(() => button("Download what was refused").click()),
      "utf8",
    );
    const reasons = (text: string) =>
      text.split("\n").flatMap((line) => (line ? JSON.parse(line).reason : []));
    assert.deepEqual(reasons(here), [
      "it has no value of title, which is to become its RowKey.",
      'line 2 has the same keys, "1984" and "Dune". Keys differ in each entity.',
      reasons(here).at(-1),
    ]);
    await close();
    await page.getByText("end of the result").waitFor();
    const exported = linesOf(await exportAs(/^JSON lines/));
    await close();
    const refused = join(folder, "refused.jsonl");
    const command = new RowhouseCommand([
      ...["import", path, "--to", server.connectionString, "--table", "KeylessToo"],
      ...["--partition-key", "year", "--row-key", "title", "--rejects", refused],
    ]);
    assert.equal(await command.exited, 1, command.stderr);
    assert.deepEqual(reasons(readFileSync(refused, "utf8")), reasons(here));
    await open("KeylessToo");
    await page.getByText("end of the result").waitFor();
    const there = linesOf(await exportAs(/^JSON lines/));
    // The page guesses types of columns; the command takes all for text.
    assert.equal(there, exported.replace(/:(7|9|198[45])\b/g, ':"$1"'));
  });

  it("are imported from where it broke off, after the page was loaded again", async () => {
    const lines = Array.from(
      { length: 1200 },
      (_, i) => `{"PartitionKey":"p","RowKey":"${String(i).padStart(4, "0")}","N":${i}}\n`,
    );
    const path = write("many.jsonl", lines.join(""));
    let sent = 0;
    const limit = async (most: number) => {
      sent = 0;
      await page.unroute(/\$batch$/);
      await page.route(/\$batch$/, (route) => (++sent > most ? route.abort() : route.continue()));
    };
    await limit(5);
    await choose("Many", path);
    await dialog().getByLabel("An entity that exists").selectOption("insert");
    await button(/^Import/).click();
    await dialog()
      .getByText("Stopped after line 500: 500 entities written, none refused.")
      .waitFor();
    await dialog().getByText("No answer").waitFor();
    await accessible();
    await page.reload();
    await limit(Number.POSITIVE_INFINITY);
    await open("Many");
    await page.getByRole("button", { name: "Import…" }).click();
    await dialog()
      .getByLabel(/^A file of JSON lines/)
      .setInputFiles(path);
    assert.ok(await dialog().getByLabel("go on after line 500").isChecked());
    assert.equal(await dialog().getByLabel("An entity that exists").inputValue(), "insert");
    await button(/^Import/).click();
    await dialog().getByText("1,200 entities written, none refused.").waitFor();
    assert.equal(sent, 7);
    await close();
    await page.getByText("counted").first().waitFor();
    await page.getByText("1,200 entities").first().waitFor();
  });

  it("of chosen rows have their whole values, which the grid does not", async () => {
    const client = clientOf(server.connectionString, "Long");
    await client.createTable();
    for (const rowKey of ["1", "2", "3"])
      await client.createEntity({
        partitionKey: "p",
        rowKey,
        text: `${rowKey}${"x".repeat(2000)}`,
      });
    await open("Long");
    await page.getByRole("gridcell").first().waitFor();
    await page.getByRole("grid").focus();
    await page.keyboard.press("ArrowDown");
    await page.keyboard.press("Space");
    const path = await exportAs(/^JSON lines/, /^the 1 row that is chosen/);
    assert.deepEqual(
      linesOf(path),
      `{"PartitionKey":"p","RowKey":"2","text":"2${"x".repeat(2000)}"}\n`,
    );
  });
}
