import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, describe, it } from "node:test";
import { fileURLToPath } from "node:url";
import { TableClient, type TransactionAction } from "@azure/data-tables";
import { BlobServiceClient } from "@azure/storage-blob";
import { QueueServiceClient } from "@azure/storage-queue";
import type { Browser, Page } from "playwright-core";
import { type RowhouseProcess, startRowhouse } from "../support/rowhouse-process.ts";
import { accountSas } from "../wire/storage-sas.ts";
import { hasBrowser, openBrowser, openPage, violationsOf } from "./browser.ts";
import { matchesPicture, matchesStructure } from "./snapshots.ts";

const root = fileURLToPath(new URL("../..", import.meta.url));
const ACCOUNT = "devstoreaccount1";

/** With `SCREENSHOTS=1` the manual's pictures are taken again. */
const takesScreenshots = process.env.SCREENSHOTS === "1";

execFileSync(process.execPath, ["explorer/build.mjs"], { cwd: root });

if (hasBrowser) describe("The explorer's other screens", flows);

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
    await page.goto(`${server.tableUrl}/_rowhouse/#/heat`);
    await page.getByText("Use the development account").click();
  });
  after(async () => {
    await browser?.close();
    await server?.stop();
    rmSync(folder, { recursive: true, force: true });
  });

  it("says that nothing happened yet, and shows an example of the heat map", async () => {
    await page.getByText("No traffic in the last 15 minutes.").waitFor();
    assert.deepEqual(await violationsOf(page), []);
    await page.evaluate("realNow = Date.now; Date.now = () => 1_790_000_000_000");
    await page.getByRole("button", { name: "Show an example" }).click();
    await page.getByText("An example, not your data.").waitFor();
    await page.getByText("Orders/region-07” had ≈ 2,600 entities/s").waitFor();
    await matchesStructure(page.getByRole("main"), "heat");
    const map = page.getByRole("application").locator("canvas");
    // Beside the names of its rows, above those of its columns.
    const cells = { x: 150, y: 0, width: 760, height: 300 };
    await matchesPicture(map, "heat", cells);
    await page.emulateMedia({ colorScheme: "dark" });
    await matchesPicture(map, "heat-dark", cells);
    await page.emulateMedia({ colorScheme: "light" });
    if (takesScreenshots) await screenshot("explorer-heat");
    await page.getByRole("button", { name: "Back" }).click();
    await page.evaluate("Date.now = realNow");
  });

  it("names the hot partition of real traffic, and leads to its rows and queries by the keys alone", async () => {
    await heatUp(server.connectionString);
    await page.goto(`${server.tableUrl}/_rowhouse/#/heat/Rides`);
    await page.reload();
    await page.getByText(/▲ “hot” had ≈ [\d,]+ entities\/s at .* above the 2,000\/s/).waitFor();
    assert.deepEqual(await violationsOf(page), []);
    const map = page.getByRole("application");
    await map.focus();
    for (const key of ["ArrowLeft", "ArrowDown", "ArrowUp", "Shift+ArrowDown"])
      await page.keyboard.press(key);
    await page.locator(".chosen", { hasText: "2 partitions" }).waitFor();
    await page.keyboard.press("Enter");
    await page.getByRole("button", { name: "Whole map" }).waitFor();
    assert.match(page.url(), /from=\d+&to=\d+&first=cold&last=hot/);
    await page.keyboard.press("0");
    await page.getByRole("button", { name: "Whole map" }).waitFor({ state: "detached" });
    // By the key: while the map settles, what the mouse aims at may move.
    await page.locator("summary", { hasText: "warmest rows as a table" }).focus();
    await page.keyboard.press("Enter");
    await page.getByRole("row", { name: /^hot/ }).waitFor();
    assert.deepEqual(await violationsOf(page), []);
    await page.getByRole("row", { name: /^hot/ }).getByRole("link", { name: "Rows" }).click();
    await page.waitForURL(/#\/t\/Rides\?filter=PartitionKey\+eq\+%27hot%27$/);
    await page.getByRole("gridcell").first().waitFor();
    await page.keyboard.press("g");
    await page.keyboard.press("h");
    await page.getByRole("heading", { name: "Heat map" }).waitFor();
    assert.deepEqual(faults, []);
  });

  it("shows what the clients did, and which of their queries cost most, with a way to their plans", async () => {
    await page.keyboard.press("g");
    await page.keyboard.press("a");
    await page.getByRole("heading", { name: "Activity" }).waitFor();
    await page.getByRole("img", { name: /^Answered within: .* p50 .*ms, p99 .*ms/ }).waitFor();
    await page.getByRole("img", { name: /^Rows read for each row returned: at most/ }).waitFor();
    await page.getByRole("img", { name: /^Commits for each flush.* flushes$/ }).waitFor();
    await page.getByRole("row", { name: /^QueryEntities/ }).waitFor();
    assert.deepEqual(await violationsOf(page), []);
    await matchesStructure(page.getByRole("main"), "activity");
    if (takesScreenshots) await screenshot("explorer-activity");
    await page
      .getByRole("link", { name: /^Rides: .*driver eq \?/ })
      .first()
      .click();
    const panel = page.getByRole("region", { name: "How this query is answered" });
    await panel.waitFor();
    const range = "PartitionKey eq 'hot' and RowKey ge '0200' and RowKey lt '0700'";
    await page.goto(
      `${server.tableUrl}/_rowhouse/#/t/Rides?filter=${encodeURIComponent(range)}&explain=1`,
    );
    await panel.getByText(/^reads .* in 1 partition$/).waitFor();
    const strip = { x: 0, y: 0, width: 900, height: 16 };
    await matchesPicture(panel.locator(".strip").first(), "explain-partitions", strip);
    await matchesPicture(panel.locator(".strip").last(), "explain-rows", strip);
    assert.deepEqual(faults, []);
  });

  it("finds the index that the traffic lacks, and draws the keys now and proposed", async () => {
    await page.goto(`${server.tableUrl}/_rowhouse/#/advisor`);
    const found = page.getByRole("article").filter({ hasText: "intra-partition secondary index" });
    await found.getByText(/high/).waitFor();
    await found.getByRole("cell", { name: /^driver_<driver>/ }).waitFor();
    await found.getByRole("cell", { name: "0000" }).first().waitFor();
    const tried = found.getByRole("link", { name: "Try it in the playground" });
    assert.equal(await tried.getAttribute("href"), "#/playground/sibling-index");
    await found.getByText("With the pattern library").click();
    await found.getByText('k.lit("found"), k.str("driver")').waitFor();
    assert.deepEqual(await violationsOf(page), []);
    await matchesStructure(found, "advisor");
    if (takesScreenshots) await screenshot("explorer-advisor");
    await page.locator("summary", { hasText: "What was checked" }).focus();
    await page.keyboard.press("Enter");
    await page.getByText("Are most queries point and range queries").waitFor();
    assert.deepEqual(await violationsOf(page), []);
    assert.deepEqual(faults, []);
  });

  it("peeks into queues without receiving, decodes, and sends poison messages back after a dry run", async () => {
    const queues = QueueServiceClient.fromConnectionString(server.connectionString);
    await page.goto(`${server.tableUrl}/_rowhouse/#/queues`);
    await page.getByText("No queues yet.").waitFor();
    assert.deepEqual(await violationsOf(page), []);
    const poison = queues.getQueueClient("rides-poison");
    await poison.create();
    for (const text of ['{"ride":1}', btoa('{"ride":2}'), "<img src=x onerror=alert(1)>"])
      await poison.sendMessage(text);
    await page.getByRole("button", { name: "Refresh" }).click();
    await page.getByRole("link", { name: "rides-poison", exact: true }).click();
    await page.getByText("JSON in Base64").waitFor();
    await page.getByText("3 messages peeked, of 3").waitFor();
    await page.getByRole("button", { name: "Dry run" }).click();
    await page.getByText("There is no queue rides.").waitFor();
    assert.deepEqual(await violationsOf(page), []);
    await page.getByRole("button", { name: "Create it" }).click();
    await page.getByText("There is no queue rides.").waitFor({ state: "detached" });
    await page.getByLabel("at most").fill("2");
    await page.getByLabel("messages a second").fill("50");
    await page.getByRole("button", { name: "Dry run" }).click();
    await page.getByText("Would move 2 messages to rides").waitFor();
    const counted = async (name: string) =>
      (await queues.getQueueClient(name).getProperties()).approximateMessagesCount;
    assert.deepEqual([await counted("rides-poison"), await counted("rides")], [3, 0]);
    await matchesStructure(page.getByRole("main"), "queue");
    if (takesScreenshots) await screenshot("explorer-queues");
    await page.getByRole("button", { name: "Redrive" }).click();
    await page.getByText("2 messages moved to rides.").waitFor();
    assert.deepEqual([await counted("rides-poison"), await counted("rides")], [1, 2]);
    const { peekedMessageItems } = await queues
      .getQueueClient("rides")
      .peekMessages({ numberOfMessages: 2 });
    assert.deepEqual(
      peekedMessageItems.map(({ messageText, dequeueCount }) => [messageText, dequeueCount]),
      [
        ['{"ride":1}', 0],
        [btoa('{"ride":2}'), 0],
      ],
    );
    assert.equal(await page.locator("img").count(), 0);
    assert.deepEqual(faults, []);
  });

  it("shows the tree of blobs, the end of a long log, its lines, its bytes, and downloads it", async () => {
    const blobs = BlobServiceClient.fromConnectionString(server.connectionString);
    const container = blobs.getContainerClient("logs");
    await container.create();
    const log = Array.from({ length: 9000 }, (_, i) => `line ${i} of the day <b>`).join("\n");
    const metadata = { writer: "one" };
    await container.getBlockBlobClient("2026/11/day.log").upload(log, log.length, { metadata });
    await page.goto(`${server.tableUrl}/_rowhouse/#/blobs`);
    await page.getByRole("link", { name: "logs" }).click();
    await page.getByRole("link", { name: "2026/" }).click();
    await page.getByRole("link", { name: "11/" }).click();
    await page.getByText("0 prefixes and 1 blob shown, that is all.").waitFor();
    assert.deepEqual(await violationsOf(page), []);
    await page.getByRole("link", { name: "day.log" }).click();
    const content = page.getByRole("region", { name: "Content" });
    await content.getByText("line 8999 of the day <b>").waitFor();
    assert.ok((await content.innerText()).length < 70_000);
    await matchesStructure(page.getByRole("main"), "blob");
    if (takesScreenshots) await screenshot("explorer-blobs");
    await page.getByRole("button", { name: "Begin" }).click();
    await content.getByText("line 0 of the day").waitFor();
    await page.getByLabel("Lines with").fill("line 17 of");
    await page.getByText("1 line with").waitFor();
    await page.getByLabel("Lines with").fill("");
    await page.getByLabel("hex").check();
    await content.getByText("00000000  6c 69 6e 65 20 30").waitFor();
    await page.locator("summary", { hasText: "Properties and metadata" }).focus();
    await page.keyboard.press("Enter");
    await page.getByRole("row", { name: "metadata: writer one" }).waitFor();
    assert.deepEqual(await violationsOf(page), []);
    const [download] = await Promise.all([
      page.waitForEvent("download"),
      page.getByRole("button", { name: /^Download/ }).click(),
    ]);
    assert.equal(readFileSync(await download.path(), "utf8"), log);
    assert.equal(download.suggestedFilename(), "day.log");
    assert.deepEqual(faults, []);
  });

  it("makes a signature for a range of keys, says what it opens, and tries it", async () => {
    await page.goto(`${server.tableUrl}/_rowhouse/#/sas`);
    await page.getByText("Name the table.").waitFor();
    await page.getByLabel("Name").fill("Rides");
    await page.getByLabel("First partition key").fill("cold");
    await page.getByLabel("Last partition key").fill("cold");
    await page
      .getByText("Whoever has it may read entities in the table Rides, partition “cold” alone")
      .waitFor();
    await page.getByRole("button", { name: "Make it" }).click();
    await page.getByRole("button", { name: "Test it" }).click();
    await page.getByText("✓ to read its first entity: 200, allowed").waitFor();
    await page.getByText(/✓ to read “hot”, “0000”: 404 \w+, hidden/).waitFor();
    assert.deepEqual(await violationsOf(page), []);
    await matchesStructure(page.getByRole("main"), "signature");
    if (takesScreenshots) await screenshot("explorer-signature");
    const url = await page.getByRole("group", { name: "The signature" }).locator("pre").innerText();
    const answer = await fetch(url, { headers: { Accept: "application/json;odata=nometadata" } });
    const { value } = (await answer.json()) as { value: { PartitionKey: string }[] };
    assert.deepEqual([...new Set(value.map(({ PartitionKey }) => PartitionKey))], ["cold"]);
    assert.deepEqual(faults, []);
  });

  it("shows a signature nothing of others' traffic, and says why", async () => {
    const other = await openPage(browser, { colorScheme: "dark" });
    await other.page.goto(`${server.tableUrl}/_rowhouse/#/heat`);
    await other.page.getByRole("tab", { name: "Shared access signature" }).click();
    await other.page
      .getByLabel("URL with the signature")
      .fill(`${server.tableUrl}/${ACCOUNT}?${accountSas({ ss: "t", sp: "rl" })}`);
    await other.page.getByRole("button", { name: "Log in" }).click();
    await other.page.getByText("403 InsightNeedsKey").waitFor();
    assert.deepEqual(await violationsOf(other.page), []);
    assert.deepEqual(other.faults, []);
  });

  async function screenshot(name: string): Promise<void> {
    await page.screenshot({ path: join(root, `docs/manual/${name}.png`) });
  }
}

/** More than 2,000 entities a second of one partition in ten seconds, whenever those begin. */
async function heatUp(connection: string): Promise<void> {
  const table = TableClient.fromConnectionString(connection, "Rides", {
    allowInsecureConnection: true,
  });
  await table.createTable();
  const entity = (partitionKey: string, i: number): TransactionAction => [
    "upsert",
    { partitionKey, rowKey: String(i).padStart(4, "0"), driver: `driver ${i % 7}`, price: i },
  ];
  for (let from = 0; from < 1000; from += 100)
    await table.submitTransaction(Array.from({ length: 100 }, (_, i) => entity("hot", from + i)));
  const read = async (partition: string, times: number) => {
    const filter = `PartitionKey eq '${partition}' and driver eq 'nobody'`;
    const queryOptions = { filter };
    for (let i = 0; i < times; i++) for await (const _ of table.listEntities({ queryOptions }));
  };
  await table.submitTransaction(Array.from({ length: 100 }, (_, i) => entity("cold", i)));
  await read("cold", 100);
  await read("hot", 60);
}
