import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, describe, it } from "node:test";
import { fileURLToPath } from "node:url";
import { TableServiceClient } from "@azure/data-tables";
import type { Browser, Page } from "playwright-core";
import { type RowhouseProcess, startRowhouse } from "../support/rowhouse-process.ts";
import { accountSas } from "../wire/storage-sas.ts";
import {
  hasBrowser,
  openBrowser,
  openPage,
  screenshot,
  takesScreenshots,
  violationsOf,
} from "./browser.ts";
import { matchesPicture, matchesStructure, withoutWords } from "./snapshots.ts";

const root = fileURLToPath(new URL("../..", import.meta.url));

execFileSync(process.execPath, ["explorer/build.mjs"], { cwd: root });

if (hasBrowser) describe("The explorer's playground", flows);

function flows() {
  let folder: string;
  let server: RowhouseProcess;
  let browser: Browser;
  let page: Page;
  let faults: readonly string[];

  before(async () => {
    folder = mkdtempSync(join(tmpdir(), "rowhouse-"));
    [server, browser] = await Promise.all([startRowhouse(folder), openBrowser()]);
    ({ page, faults } = await openPage(browser));
    await page.goto(`${server.tableUrl}/_rowhouse/`);
    await page.getByText("Use the development account").click();
    await page.getByRole("navigation").waitFor();
  });
  after(async () => {
    await browser?.close();
    await server?.stop();
    rmSync(folder, { recursive: true, force: true });
  });

  const invariant = (says: RegExp) => page.getByRole("listitem").filter({ hasText: says });
  const tables = async () => {
    const client = TableServiceClient.fromConnectionString(server.connectionString, {
      allowInsecureConnection: true,
    });
    const names: string[] = [];
    for await (const { name } of client.listTables()) names.push(name!);
    return names;
  };

  it("has the published patterns as its contents, and is reached by the keys", async () => {
    await page.keyboard.press("g");
    await page.keyboard.press("p");
    await page.getByRole("heading", { name: "Playground" }).waitFor();
    await page.getByRole("row", { name: /^Log tail/ }).waitFor();
    assert.deepEqual(await violationsOf(page), []);
    await matchesStructure(page.getByRole("main"), "playground");
    await page.getByRole("link", { name: "Eventually consistent transactions" }).click();
    await page.getByText("archiveEmployee.start(db").waitFor();
    assert.deepEqual(await tables(), []);
    assert.deepEqual(await violationsOf(page), []);
  });

  it("crashes a transaction between its two writes, shows what is broken for now, and recovers", async () => {
    await page.getByRole("button", { name: "Create the tables" }).click();
    await invariant(/^✓ holds: No employee is in both$/).waitFor();
    assert.equal((await tables()).length, 3);
    await page.getByRole("button", { name: "Archive 456" }).click();
    const removal = page
      .getByRole("status")
      .getByText(/^Waits to send: commit to Employee: delete/);
    const rows = page.getByRole("table").filter({ hasText: /^EmployeeArchive/ });
    const requests = page.getByRole("list", { name: "Requests" }).getByRole("listitem");
    for (let sent = 1; !(await removal.isVisible()); sent++) {
      await page.keyboard.press("s");
      await requests.nth(sent).filter({ hasText: "waiting:" }).waitFor();
    }
    assert.equal(await rows.getByRole("cell", { name: "empid_000456" }).count(), 1);
    await page.keyboard.press("x");
    await invariant(
      /^◌ for now: No employee is in both – broken for now: 456 is in both$/,
    ).waitFor();
    await page.getByText("never sent:commit to Employee: delete").waitFor();
    assert.deepEqual(await violationsOf(page), []);
    await matchesStructure(page.getByRole("main"), "playground-crash");
    if (takesScreenshots) await screenshot(page, "explorer-playground");
    await withoutWords(page, () =>
      matchesPicture(page.getByRole("list", { name: "Invariants" }), "playground", {
        ...{ x: 0, y: 0, width: 400, height: 100 },
      }),
    );
    await page.getByRole("button", { name: "Another worker" }).click();
    await page.keyboard.press("r");
    await page.getByRole("status").getByText("A minute has passed").waitFor();
    for (const says of ["Every employee is in one", "No employee is in both", "No message waits"])
      await invariant(new RegExp(`^✓ holds: ${says}`)).waitFor();
    assert.deepEqual(faults, []);
  });

  it("says why nothing can be tried by who may only read", async () => {
    const reader = await openPage(browser, { colorScheme: "dark" });
    await reader.page.goto(`${server.tableUrl}/_rowhouse/`);
    await reader.page.getByRole("tab", { name: "Shared access signature" }).click();
    const sas = accountSas({ ss: "t", srt: "sco", sp: "rl" });
    await reader.page
      .getByLabel("URL with the signature")
      .fill(`${server.tableUrl}/devstoreaccount1?${sas}`);
    await reader.page.getByRole("button", { name: "Log in" }).click();
    await reader.page.getByRole("navigation").waitFor();
    await reader.page.goto(`${server.tableUrl}/_rowhouse/#/playground/wide`);
    await reader.page.getByRole("button", { name: "Create the tables" }).click();
    await reader.page.getByText("403 AuthorizationPermissionMismatch").waitFor();
    assert.deepEqual(await violationsOf(reader.page), []);
    // As the server answers the login of a read-only explorer.
    await reader.page.evaluate(`
      const stored = JSON.parse(sessionStorage.getItem("rowhouse.session"));
      sessionStorage.setItem("rowhouse.session", JSON.stringify({ ...stored, isReadOnly: true }));
    `);
    await reader.page.reload();
    await reader.page.getByText("read-only, and the playground writes").waitFor();
    assert.equal(await reader.page.getByRole("button", { name: "Create the tables" }).count(), 0);
    assert.deepEqual(await violationsOf(reader.page), []);
    assert.deepEqual(reader.faults, []);
  });

  it("removes its tables when it is left, and those that a closed tab left when it is asked to", async () => {
    await page.getByRole("navigation", { name: "Path" }).getByRole("link").click();
    await page.getByRole("heading", { name: "Playground" }).waitFor();
    const client = TableServiceClient.fromConnectionString(server.connectionString, {
      allowInsecureConnection: true,
    });
    while ((await tables()).length > 0);
    for (const name of ["playgroundScratch0a1b2c3dLeft", "playgroundScratchOfMine"])
      await client.createTable(name);
    await page.reload();
    await page.getByText("1 scratch table is left of earlier visits").waitFor();
    assert.deepEqual(await violationsOf(page), []);
    await page.getByRole("button", { name: "Remove" }).click();
    await page.getByText("1 scratch table is left").waitFor({ state: "detached" });
    assert.deepEqual(await tables(), ["playgroundScratchOfMine"]);
    assert.deepEqual(faults, []);
  });
}
