import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, describe, it } from "node:test";
import { fileURLToPath } from "node:url";
import type { Browser, Page } from "playwright-core";
import { type RowhouseProcess, startRowhouse } from "../support/rowhouse-process.ts";
import { accountSas } from "../wire/storage-sas.ts";
import {
  CHROMIUM,
  hasBrowser,
  openBrowser,
  openPage,
  screenshot,
  takesScreenshots,
  violationsOf,
} from "./browser.ts";
import { clientOf, type Films, loadFilms } from "./films.ts";
import { matchesStructure, matchesWords } from "./snapshots.ts";

const root = fileURLToPath(new URL("../..", import.meta.url));
const ACCOUNT = "devstoreaccount1";

execFileSync(process.execPath, ["explorer/build.mjs"], { cwd: root });

describe("The files of the explorer", () => {
  it("are at most 60 KB to load at first, and 260 KB in all", async () => {
    const { assets, first } = await import("@rowhouse/explorer/assets");
    const bytesOf = (names: Iterable<string>) =>
      [...names].reduce((sum, name) => sum + assets.get(name)!.gzip.length, 0);
    assert.ok(bytesOf(first) <= 60_000, `${bytesOf(first)} bytes`);
    assert.ok(bytesOf(assets.keys()) <= 260_000, `${bytesOf(assets.keys())} bytes`);
    // Editing is no part of what is loaded at first.
    assert.ok([...assets.keys()].some((name) => /^editing-.*js$/.test(name)));
    assert.ok(first.every((name) => !name.startsWith("editing-")));
  });
});

if (!hasBrowser) {
  it(`The explorer is not tried in a browser: there is none at ${CHROMIUM}. Install Debian's package chromium, or name one in CHROMIUM.`, () => {});
} else {
  describe("The explorer in a browser", flows);
}

function flows() {
  let folder: string;
  let server: RowhouseProcess;
  let browser: Browser;
  let link: string;
  let films: Films;

  before(async () => {
    folder = mkdtempSync(join(tmpdir(), "rowhouse-"));
    [server, browser] = await Promise.all([startRowhouse(folder), openBrowser()]);
    link = /explorer is at (\S+)/.exec(server.lines.join("\n"))![1]!;
    films = await loadFilms(server.connectionString);
  });
  after(async () => {
    await browser?.close();
    await server?.stop();
    rmSync(folder, { recursive: true, force: true });
  });

  /** A page with a session of the development account. */
  const enter = async (hash = "", options = {}) => {
    const opened = await openPage(browser, options);
    await opened.page.goto(`${server.tableUrl}/_rowhouse/${hash}`);
    await opened.page.getByText("Use the development account").click();
    await opened.page.getByRole("navigation").waitFor();
    return opened;
  };

  it("is opened by the printed link, once, which then is in no address", async () => {
    const { page, faults } = await openPage(browser);
    await page.goto(link);
    await page.getByRole("heading", { name: "Tables" }).waitFor();
    assert.ok(!page.url().includes("link="), page.url());
    await page.reload();
    await page.getByRole("heading", { name: "Tables" }).waitFor();
    const other = await openPage(browser);
    await other.page.goto(link);
    await other.page.getByText("used before").waitFor();
    assert.deepEqual(await violationsOf(other.page), []);
    assert.deepEqual([...faults, ...other.faults], []);
  });

  it("lists tables with their counts, creates one, and deletes it after its name was typed", async () => {
    const { page, faults } = await enter();
    const row = page.getByRole("row", { name: "Films" });
    await row.getByText(films.all.toLocaleString("en-US"), { exact: true }).first().waitFor();
    for (const name of ["Now", "Scans today", "Findings"])
      await page.getByRole("columnheader", { name }).waitFor();
    assert.deepEqual(await violationsOf(page), []);
    await matchesStructure(page.getByRole("main"), "tables");
    if (takesScreenshots) await screenshot(page, "explorer-tables");
    await page.getByLabel("New table").fill("Scratch");
    await page.getByRole("button", { name: "Create" }).click();
    await page.getByLabel("Choose Scratch").check();
    await page.getByRole("button", { name: "Delete 1…" }).click();
    const dialog = page.getByRole("dialog");
    await dialog.getByText(`Delete Scratch of ${ACCOUNT}?`).waitFor();
    assert.deepEqual(await violationsOf(page), []);
    const remove = dialog.getByRole("button", { name: "Delete" });
    assert.equal(await remove.isDisabled(), true);
    await dialog.getByRole("textbox").fill("Scratch");
    await remove.click();
    await page.getByLabel("Choose Scratch").waitFor({ state: "detached" });
    await page.getByLabel("New table").fill("films");
    await page.getByRole("button", { name: "Create" }).click();
    await page.getByText("409 TableAlreadyExists").waitFor();
    assert.deepEqual(faults, []);
  });

  it("says what a query will read before it is run, and then what it read", async () => {
    const { page, faults } = await enter("#/t/Films");
    await page.getByRole("gridcell").first().waitFor();
    await status(page, "there is more");
    await page.keyboard.press("/");
    await page.keyboard.type("Part");
    await page.getByRole("option", { name: /PartitionKey/ }).waitFor();
    await page.keyboard.press("ArrowDown");
    await page.keyboard.press("Enter");
    await page.keyboard.type("eq '1984' and year gt 1980");
    await page
      .getByText(
        `reads ${films.of1984} of ${films.all.toLocaleString("en-US")} entities, tests each`,
      )
      .waitFor();
    await page.getByText("not run yet").waitFor();
    await page.keyboard.press("Escape");
    await page.keyboard.press("Control+Enter");
    await status(page, `${films.of1984} shown · ${films.of1984} read · end of the result`);
    await page.getByRole("grid").focus();
    await page.keyboard.press("e");
    const panel = page.getByRole("region", { name: "How this query is answered" });
    await panel.getByText("read the whole partition “1984”").waitFor();
    await panel.getByText(`${films.of1984} returned of ${films.of1984} read`).waitFor();
    await panel.getByText("Pattern: intra-partition secondary index").waitFor();
    assert.deepEqual(await violationsOf(page), []);
    if (takesScreenshots) await screenshot(page, "explorer-query");
    assert.match(
      page.url(),
      /#\/t\/Films\?filter=PartitionKey\+eq\+%271984%27\+and\+year\+gt\+1980&explain=1$/,
    );
    // Another place, and back.
    await page.getByRole("link", { name: "Tables" }).click();
    await page.getByRole("heading", { name: "Tables" }).waitFor();
    await page.goBack();
    await panel.waitFor();
    await status(page, `${films.of1984} shown`);
    assert.deepEqual(faults, []);
  });

  it("has a query, its plan and its rows of two shapes in the order in which they are read out", async () => {
    const table = clientOf(server.connectionString, "Shapes");
    await table.createTable();
    for (const values of [{ title: "a" }, { title: "b" }, { title: "c", year: 1984 }])
      await table.createEntity({ partitionKey: "p", rowKey: values.title, ...values });
    const { page } = await enter(
      "#/t/Shapes?filter=PartitionKey+eq+%27p%27+and+title+gt+%27%27&explain=1",
    );
    await page.getByText("3 returned of 3 read").waitFor();
    await page.getByText("counted").first().waitFor();
    await matchesStructure(page.getByRole("main"), "query");
    await table.deleteTable();
  });

  it("asks before a scan, and finds the one film that matches", async () => {
    const { page, faults } = await enter("#/t/Films");
    await page.getByRole("gridcell").first().waitFor();
    await page.keyboard.press("/");
    await page.keyboard.type(`title eq '${films.title.replaceAll("'", "''")}'`);
    await page.keyboard.press("Escape");
    await page.keyboard.press("Control+Enter");
    if (films.all > 1000) {
      await page.getByText("No key answers this filter.").waitFor();
      await page.getByText("nothing read").waitFor();
      assert.deepEqual(await violationsOf(page), []);
      await page.getByRole("button", { name: "Run the scan" }).click();
    }
    await status(page, `1 shown · ${films.all.toLocaleString("en-US")} read`);
    await page.getByLabel("Filter", { exact: true }).and(page.locator("input")).fill("year gt 5 x");
    await page.getByText("Syntax error at position 11").waitFor();
    await page.getByText("Allowed here: “and”, “or”").waitFor();
    assert.deepEqual(await violationsOf(page), []);
    assert.deepEqual(faults, []);
  });

  it("builds a filter in the form that is the same as its text", async () => {
    const { page, faults } = await enter("#/t/Films?filter=PartitionKey+eq+%271984%27");
    await page.getByRole("gridcell").first().waitFor();
    await page.getByRole("button", { name: "Form" }).click();
    await page.getByRole("button", { name: "+ condition" }).click();
    await page.getByLabel("Property").nth(1).fill("year");
    await page.getByLabel("Comparison").nth(1).selectOption("ge");
    await page.getByLabel("Value").nth(1).fill("1984");
    assert.deepEqual(await violationsOf(page), []);
    await page.getByRole("button", { name: "Text" }).click();
    const text = page.getByLabel("Filter", { exact: true }).and(page.locator("input"));
    assert.equal(await text.inputValue(), "PartitionKey eq '1984' and year ge 1984");
    assert.deepEqual(faults, []);
  });

  it("moves in the grid by keys, opens an entity, sorts what was read, and chooses a shape", async () => {
    const { page, faults } = await enter("#/t/Films?filter=PartitionKey+eq+%271984%27");
    await page.getByRole("gridcell").first().waitFor();
    const grid = page.getByRole("grid");
    await grid.focus();
    for (const key of [
      "ArrowDown",
      "ArrowRight",
      "Control+End",
      "Control+Home",
      "PageDown",
      "End",
      "Home",
    ])
      await page.keyboard.press(key);
    // The keys come one after the other; the grid names its cell when the last of them is drawn.
    await page.locator('[role=grid][aria-activedescendant$="-0"]').waitFor();
    const active = await grid.getAttribute("aria-activedescendant");
    await page.locator(`#${active}[aria-selected=true]`).waitFor();
    await page.keyboard.press("Enter");
    const entity = page.getByRole("complementary", { name: "Entity" });
    await entity.getByText("ETag").waitFor();
    assert.deepEqual(await violationsOf(page), []);
    await page.keyboard.press("Escape");
    await entity.waitFor({ state: "detached" });
    await page.getByRole("columnheader", { name: "title" }).getByRole("button").click();
    await page.getByText(`sorted among the ${films.of1984} rows that were read`).waitFor();
    await page.keyboard.press("?");
    const keys = page.getByRole("dialog", { name: "Keys" });
    await keys.waitFor();
    assert.deepEqual(await violationsOf(page), []);
    await matchesWords(keys, "keys");
    assert.deepEqual(faults, []);
  });

  it("shows a hostile table as text, cut, in both themes", async () => {
    await loadHostile(server.connectionString);
    const { page, faults } = await enter("#/t/Hostile", { colorScheme: "dark" });
    await page.getByText("<img src=x onerror=alert(1)>").first().waitFor();
    await page.getByText("32K").first().waitFor();
    assert.equal(await page.locator("img").count(), 0);
    assert.deepEqual(await violationsOf(page), []);
    await page.getByRole("grid").focus();
    await page.keyboard.press("End");
    await page.getByRole("columnheader", { name: "p239" }).waitFor();
    const cells = await page.getByRole("gridcell").count();
    assert.ok(cells < 1000, `${cells} cells are drawn`);
    await page.keyboard.press("Enter");
    await page.getByLabel("Value of p239").waitFor();
    const long = page.getByLabel("Value of long", { exact: true });
    assert.equal((await long.inputValue()).length, 32_000);
    assert.deepEqual(await violationsOf(page), []);
    assert.deepEqual(faults, []);
  });

  it("loses nothing at 200 % zoom", async () => {
    // A window of 1200 × 760 pixels has half as many of each at twice the size.
    const viewport = { width: 600, height: 380 };
    const { page, faults } = await enter("", { viewport, deviceScaleFactor: 2 });
    const isWhole = () =>
      page.evaluate(
        `[document.documentElement, document.querySelector("main")].every(
          ({ scrollWidth, clientWidth }) => scrollWidth <= clientWidth,
        )`,
      );
    // With all that a row may show: its counts, and its load.
    await page.getByRole("row", { name: "Hostile" }).getByText("100 %").first().waitFor();
    await page.getByRole("columnheader", { name: "Scans today" }).waitFor();
    assert.equal(await isWhole(), true);
    assert.deepEqual(await violationsOf(page), []);
    await page.goto(
      `${server.tableUrl}/_rowhouse/#/t/Films?filter=PartitionKey+eq+%271984%27&explain=1`,
    );
    await page.getByRole("gridcell").first().waitFor();
    assert.equal(await isWhole(), true);
    const last = page.locator(".grid-foot [role=status]").first();
    await last.scrollIntoViewIfNeeded();
    const { y, height } = (await last.boundingBox())!;
    assert.ok(y >= 0 && y + height <= 380, `the foot is at ${y}`);
    const grid = (await page.getByRole("grid").boundingBox())!;
    assert.ok(grid.height >= 100, `the grid is ${grid.height} high`);
    assert.deepEqual(await violationsOf(page), []);
    const others = ["queues", "blobs", "heat", "activity", "advisor", "sas", "playground"];
    for (const screen of [...others, "playground/archive"]) {
      await page.goto(`${server.tableUrl}/_rowhouse/#/${screen}`);
      await page
        .locator(`nav a[aria-current=page][href="#/${screen.replace(/\/.*/, "")}"]`)
        .waitFor();
      await page.locator("main h1").waitFor();
      assert.equal(await isWhole(), true, screen);
    }
    assert.deepEqual(faults, []);
  });

  it("is opened by a signature as far as that goes, and says what is refused", async () => {
    const { page, faults } = await openPage(browser);
    await page.goto(`${server.tableUrl}/_rowhouse/`);
    await page.getByText("Use the development account").waitFor();
    await matchesStructure(page.getByRole("main"), "login");
    await page.getByRole("tab", { name: "Shared access signature" }).click();
    assert.deepEqual(await violationsOf(page), []);
    await matchesStructure(page.getByRole("main"), "login-signature");
    const url = page.getByLabel("URL with the signature");
    await url.fill(`${server.tableUrl}/${ACCOUNT}?${accountSas({ ss: "t", sp: "r" })}x`);
    await page.getByRole("button", { name: "Log in" }).click();
    await page.getByRole("alert").waitFor();
    await url.fill(`${server.tableUrl}/${ACCOUNT}?${accountSas({ ss: "t", sp: "r" })}`);
    await page.getByRole("button", { name: "Log in" }).click();
    await page.getByText("403 AuthorizationPermissionMismatch").waitFor();
    await page.goto(`${server.tableUrl}/_rowhouse/#/t/Films`);
    await page.getByRole("gridcell").first().waitFor();
    await page.getByText("by signature").waitFor();
    assert.deepEqual(faults, []);
  });

  it("shows that it is read-only, and stays usable when the server is gone", async () => {
    const own = mkdtempSync(join(tmpdir(), "rowhouse-"));
    const other = await startRowhouse(own, ["--explorer", "readonly"]);
    const { page, faults } = await openPage(browser);
    await page.goto(`${other.tableUrl}/_rowhouse/`);
    await page.getByText("Use the development account").click();
    await page.getByText("No tables yet").waitFor();
    await page.getByText("read-only", { exact: true }).waitFor();
    assert.equal(await page.getByRole("button", { name: "Create" }).count(), 0);
    assert.deepEqual(await violationsOf(page), []);
    await other.stop();
    await page.getByRole("button", { name: "Refresh" }).click();
    await page.getByText("does not answer").waitFor();
    assert.deepEqual(await violationsOf(page), []);
    const screens = ["t/Films", "queues", "blobs", "heat", "activity", "advisor", "sas"];
    for (const screen of [...screens, "playground"]) {
      await page.evaluate(`location.hash = "#/${screen}"`);
      await page.getByRole("main").getByText("does not answer").first().waitFor();
    }
    rmSync(own, { recursive: true });
    assert.deepEqual(faults, []);
  });
}

async function status(page: Page, text: string): Promise<void> {
  await page.locator(".grid-foot [role=status]", { hasText: text }).waitFor();
}

async function loadHostile(connection: string): Promise<void> {
  const table = clientOf(connection, "Hostile");
  await table.createTable();
  const many = Object.fromEntries(Array.from({ length: 240 }, (_, i) => [`p${i}`, `<b>${i}</b>`]));
  const keys = [
    "<img src=x onerror=alert(1)>",
    "\u202eright to left",
    "😀👩‍👩‍👧",
    "'; drop --",
    "{{x}}",
    "a%2Fb c",
  ];
  for (const [i, key] of keys.entries())
    await table.createEntity({
      partitionKey: keys[0]!,
      rowKey: key,
      long: "x😀".repeat(10_666) + "xx",
      n: i,
      ...many,
    });
}
