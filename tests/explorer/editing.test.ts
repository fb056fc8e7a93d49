import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, afterEach, before, beforeEach, describe, it } from "node:test";
import { fileURLToPath } from "node:url";
import type { TableClient } from "@azure/data-tables";
import type { Browser, Page } from "playwright-core";
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
import { clientOf, loadFilms } from "./films.ts";
import { matchesStructure } from "./snapshots.ts";

const root = fileURLToPath(new URL("../..", import.meta.url));
execFileSync(process.execPath, ["explorer/build.mjs"], { cwd: root });

if (!hasBrowser) {
  it(`Editing is not tried in a browser: there is none at ${CHROMIUM}.`, () => {});
} else {
  describe("Editing in a browser", flows);
}

function flows() {
  let folder: string;
  let server: RowhouseProcess;
  let browser: Browser;
  let films: TableClient;
  let opened: WatchedPage;
  let page: Page;
  before(async () => {
    folder = mkdtempSync(join(tmpdir(), "rowhouse-"));
    [server, browser] = await Promise.all([startRowhouse(folder), openBrowser()]);
    films = clientOf(server.connectionString, "Films");
    await loadFilms(server.connectionString, ["1984", "1986", "1989"]);
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

  const open = async (filter: string) => {
    const query = new URLSearchParams({ filter });
    await page.goto(`${server.tableUrl}/_rowhouse/#/t/Films?${query}`);
    await page.getByRole("gridcell").first().waitFor();
  };
  const editor = () => page.getByRole("complementary", { name: "Entity" });
  const dialog = () => page.getByRole("dialog");
  /** Two films of a year, in key order. */
  const two = async (year: string): Promise<readonly [string, string]> => {
    const keys: string[] = [];
    for await (const { rowKey } of films.listEntities({
      queryOptions: { filter: `PartitionKey eq '${year}'` },
    })) {
      keys.push(rowKey!);
      if (keys.length === 2) break;
    }
    return [keys[0]!, keys[1]!];
  };
  const accessible = async () => assert.deepEqual(await violationsOf(page), []);

  it("shows a conflict in three columns, and saves what was chosen", async () => {
    const [rowKey] = await two("1984");
    await open("PartitionKey eq '1984'");
    await page.getByRole("grid").focus();
    await page.keyboard.press("F2");
    await editor().getByLabel("Value of title", { exact: true }).fill("Mine");
    await editor().getByLabel("Value of cast", { exact: true }).fill("Ann");
    await editor().getByText("Saving will send: merge title, cast").waitFor();
    await accessible();
    if (takesScreenshots) await screenshot(page, "explorer-edit");
    await films.updateEntity({ partitionKey: "1984", rowKey, title: "Theirs", genres: "Drama" });
    await page.keyboard.press("Control+s");
    await dialog().getByText("1 transaction in 1 partition").waitFor();
    await accessible();
    await dialog().getByRole("button", { name: "Save" }).click();
    await dialog().getByText("nothing saved").waitFor();
    await dialog().getByText("412 UpdateConditionNotSatisfied").waitFor();
    await dialog().getByRole("button", { name: "Compare" }).click();
    await dialog().getByText("both changed it").waitFor();
    await accessible();
    await matchesStructure(dialog(), "conflict");
    if (takesScreenshots) await screenshot(page, "explorer-conflict");
    await dialog().getByRole("radio", { name: "theirs for title" }).check();
    await dialog().getByRole("button", { name: "Stage what is chosen" }).click();
    await dialog().getByRole("button", { name: "Save" }).click();
    await page.getByText("Saved: 1 change in 1 transaction.").waitFor();
    const { title, cast, genres } = await films.getEntity("1984", rowKey);
    assert.deepEqual({ title, cast, genres }, { title: "Theirs", cast: "Ann", genres: "Drama" });
  });

  it("saves two partitions as two transactions, and undoes both while nobody changed them", async () => {
    const [first] = await two("1986");
    const [second] = await two("1989");
    const [before1, before2] = [
      await films.getEntity("1986", first),
      await films.getEntity("1989", second),
    ];
    await open(
      `RowKey eq '${first.replaceAll("'", "''")}' or RowKey eq '${second.replaceAll("'", "''")}'`,
    );
    for (const [year, key] of [
      ["1986", first],
      ["1989", second],
    ] as const) {
      const row = page.getByRole("row").filter({ hasText: year }).filter({ hasText: key }).first();
      await row.dblclick();
      await page.getByRole("complementary", { name: `Entity ${year} / ${key}` }).waitFor();
      await editor().getByRole("button", { name: "Remove genres" }).click();
      await editor().getByText("replace, without genres").waitFor();
    }
    await page.getByText("2 staged in 2 partitions").waitFor();
    await page.keyboard.press("Control+s");
    await dialog().getByText("2 transactions in 2 partitions").waitFor();
    await dialog().getByText("they do not commit together").waitFor();
    await dialog().getByRole("button", { name: "Save" }).click();
    await page.getByText("Saved: 2 changes in 2 transactions.").waitFor();
    assert.equal((await films.getEntity("1986", first)).genres, undefined);
    // Somebody changes one of them: that one is not undone.
    await films.updateEntity({ partitionKey: "1989", rowKey: second, year: 2000 });
    await page.getByRole("grid").focus();
    await page.keyboard.press("Control+z");
    await dialog().getByText("Undo the last save of").waitFor();
    await accessible();
    await dialog().getByRole("button", { name: "Undo", exact: true }).click();
    await dialog().getByText("nothing saved").waitFor();
    await dialog().getByText("1 change, saved").waitFor();
    assert.equal((await films.getEntity("1986", first)).genres, before1.genres);
    await dialog().getByRole("button", { name: "Compare" }).click();
    await dialog()
      .getByRole("radio", { name: "theirs for year" })
      .and(page.locator(":checked"))
      .waitFor();
    await dialog().getByRole("button", { name: "Stage what is chosen" }).click();
    await dialog().getByRole("button", { name: "Save" }).click();
    await page.getByText("Saved: 1 change in 1 transaction.").waitFor();
    const now = await films.getEntity("1989", second);
    assert.deepEqual([now.year, now.genres], [2000, before2.genres]);
  });

  it("keeps every type to the last digit, absent apart from empty, in the form and in JSON", async () => {
    const JSON_TEXT = `{
      "PartitionKey": "types", "RowKey": "all", "text": "é <b>", "empty": "", "gone": null,
      "small": -5, "large": "9007199254740993", "large@odata.type": "Edm.Int64",
      "real": 1.0, "odd": "NaN", "odd@odata.type": "Edm.Double", "flag": true,
      "when": "2026-11-28T12:00:00.1234567Z", "when@odata.type": "Edm.DateTime",
      "id": "0f8fad5b-d9cb-469f-a165-70867728950e", "id@odata.type": "Edm.Guid",
      "bytes": "AQID", "bytes@odata.type": "Edm.Binary" }`;
    await open("PartitionKey eq '1984'");
    await page.getByRole("grid").focus();
    await page.keyboard.press("n");
    await editor().getByRole("button", { name: "JSON", exact: true }).click();
    const json = editor().getByLabel("The entity as JSON");
    await json.fill("{");
    await editor().getByText("The draft stays as it was before.").waitFor();
    await accessible();
    await json.fill(JSON_TEXT);
    await editor().getByText("“gone” is null: the entity will not have it.").waitFor();
    await editor().getByRole("button", { name: "Form", exact: true }).click();
    await accessible();
    // A conversion that loses something asks first.
    await editor().getByLabel("Value of real", { exact: true }).fill("1.5");
    await editor().getByLabel("Type of real").selectOption("Edm.Int32");
    await editor().getByText("from which the value cannot be had back").waitFor();
    await editor().getByRole("button", { name: "Keep", exact: true }).click();
    await editor().getByLabel("Value of real", { exact: true }).fill("2.50");
    await editor().getByText("stored as 2.5").waitFor();
    // What is wrong is kept, and not saved.
    await editor().getByLabel("Value of small").fill("2147483648");
    await editor().getByText("Cannot be saved like this: small").waitFor();
    await accessible();
    await matchesStructure(editor(), "editor");
    await page.keyboard.press("Control+s");
    assert.equal(await dialog().getByRole("button", { name: "Save" }).isDisabled(), true);
    await dialog().getByRole("button", { name: "Open it" }).click();
    await editor().getByLabel("Value of small").fill("-5");
    await editor().getByLabel("hexadecimal").check();
    await editor().getByLabel("Value of bytes", { exact: true }).fill("01 02 ff");
    await page.keyboard.press("Control+s");
    await dialog().getByRole("button", { name: "Save" }).click();
    await page.getByText("Saved: 1 change in 1 transaction.").waitFor();
    const stored = await films.getEntity("types", "all", { disableTypeConversion: true });
    const { etag, timestamp, ...values } = stored;
    assert.deepEqual(
      Object.fromEntries(
        Object.entries(values).flatMap(([name, value]) => {
          if (/^odata|Key$/.test(name)) return [];
          const { type, value: text } = value as { type: string; value: string };
          return [[name, `${type} ${text}`]];
        }),
      ),
      {
        ...{ text: "String é <b>", empty: "String ", small: "Int32 -5" },
        ...{ large: "Int64 9007199254740993", real: "Double 2.5", odd: "Double NaN" },
        ...{ flag: "Boolean true", when: "DateTime 2026-11-28T12:00:00.1234567Z" },
        ...{ id: "Guid 0f8fad5b-d9cb-469f-a165-70867728950e", bytes: "Binary AQL/" },
      },
    );
  });

  it("says that the server is gone, if it is when the part of the page that edits is first needed", async () => {
    await open("PartitionKey eq '1986'");
    await page.route(/assets\/editing-/, (route) => route.abort());
    await page.getByRole("grid").focus();
    await page.keyboard.press("Delete");
    await page.getByText("does not answer, or is another version now").waitFor();
    await accessible();
  });

  it("deletes rows that keys chose, duplicates one, and takes a staged change back", async () => {
    await open("PartitionKey eq '1986'");
    const [first, second] = await two("1986");
    const grid = page.getByRole("grid");
    await grid.focus();
    await page.keyboard.press("Control+Home");
    await page.keyboard.press("Space");
    await page.keyboard.press("Shift+ArrowDown");
    await page.keyboard.press("Delete");
    await page.getByText("2 staged in 1 partition").waitFor();
    await grid.getByText("to be deleted, not saved").first().waitFor();
    await accessible();
    await page.keyboard.press("Control+z");
    await page.getByText("1 staged in 1 partition").waitFor();
    await page.keyboard.press("ArrowDown");
    await page.keyboard.press("ArrowDown");
    await page.keyboard.press("Enter");
    await editor().getByRole("button", { name: "Duplicate" }).click();
    await editor().getByRole("heading", { name: "New entity" }).waitFor();
    await editor().getByRole("textbox", { name: "RowKey" }).fill("A copy / of it");
    await editor().getByText("A key has no /").waitFor();
    await editor().getByRole("textbox", { name: "RowKey" }).fill("A copy of it");
    await page.keyboard.press("Control+s");
    await dialog().getByRole("button", { name: "Save" }).click();
    await page.getByText("Saved: 2 changes in 1 transaction.").waitFor();
    await films.getEntity("1986", "A copy of it");
    const left = await two("1986");
    assert.equal(left.includes(first) && left.includes(second), false);
  });

  it("changes and deletes by filter after a count, and empties a table after its name was typed", async () => {
    await open("PartitionKey eq '1989' and year eq 1989");
    await page.getByRole("button", { name: "Change all…" }).click();
    await dialog().getByRole("radio", { name: "Set a property" }).check();
    await dialog().getByLabel("Property to set", { exact: true }).fill("seen");
    await dialog().getByLabel("Type of the property to set").selectOption("Edm.Boolean");
    await dialog().getByLabel("Value to set").fill("true");
    await accessible();
    await dialog().getByRole("button", { name: "Count first" }).click();
    const found = await dialog().getByText("Would set seen of").textContent();
    const shown = /of (\d+) entities/.exec(found ?? "")?.[1];
    await accessible();
    await dialog().getByLabel("to confirm").fill("Films");
    await dialog()
      .getByRole("button", { name: `Change ${shown}` })
      .click();
    await dialog().getByText(`Changed ${shown} entities.`).waitFor();
    await dialog().getByRole("button", { name: "Close" }).click();
    await page.getByText("200 shown").waitFor();
    const jobs = page.getByRole("region", { name: "Changes in bulk" });
    await jobs.getByText(`set seen: ${shown} entities, done.`).waitFor();
    await accessible();
    await matchesStructure(jobs, "jobs");
    // Another tab sees it, too.
    await page.reload();
    await jobs.getByRole("button", { name: "Remove the change of Films from this list" }).click();
    await jobs.waitFor({ state: "detached" });
    const queryOptions = { filter: "seen eq true", select: ["RowKey"] };
    let seen = 0;
    for await (const _ of films.listEntities({ queryOptions })) seen++;
    assert.equal(seen, Number(shown));

    await page.goto(`${server.tableUrl}/_rowhouse/#/`);
    await page.getByLabel("Choose Films").check();
    await page.getByRole("button", { name: "Empty 1…" }).click();
    await dialog().getByText("Empty Films of devstoreaccount1?").waitFor();
    await accessible();
    await dialog().getByRole("textbox").fill("Films");
    await dialog().getByRole("button", { name: "Empty", exact: true }).click();
    await dialog().waitFor({ state: "detached" });
    await page.getByRole("row", { name: "Films 0 0" }).waitFor();
    for await (const entity of films.listEntities()) assert.fail(String(entity.rowKey));
  });
}
