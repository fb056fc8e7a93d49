// Measures what the explorer promises to reach, each as a ratio within one run: npm run explorer-reach
import { spawn } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import type { TransactionAction } from "@azure/data-tables";
import type { Browser, Page } from "playwright-core";
import { ROWHOUSE } from "../support/rowhouse-command.ts";
import { startRowhouse } from "../support/rowhouse-process.ts";
import { openBrowser, openPage } from "./browser.ts";
import { clientOf } from "./films.ts";

const ROWS = 100_000;
const LONG = 32_000;
const OPENINGS = 9;
const STARTS = 12;

/** Fills a table of the server below. */
async function load(name: string, rows: number, properties: () => object): Promise<void> {
  const table = clientOf(server.connectionString, name);
  await table.createTable();
  let next = 0;
  const work = async () => {
    while (next < rows) {
      const first = next;
      next += 20;
      const actions = Array.from(
        { length: Math.min(20, rows - first) },
        (_, i): TransactionAction => {
          const rowKey = String(first + i).padStart(6, "0");
          return ["create", { partitionKey: "p", rowKey, ...properties() }];
        },
      );
      await table.submitTransaction(actions);
    }
  };
  await Promise.all(Array.from({ length: 16 }, work));
}

async function enter(of: Browser, hash: string): Promise<Page> {
  const { page } = await openPage(of);
  page.setDefaultTimeout(120_000);
  await page.goto(`${server.tableUrl}/_rowhouse/`);
  await page.getByText("Use the development account").click();
  await page.getByRole("navigation").waitFor();
  await page.goto(`${server.tableUrl}/_rowhouse/${hash}`);
  await page.getByRole("gridcell").first().waitFor();
  return page;
}

interface Frames {
  readonly times: number[];
  /** Frames at whose end some of what is seen had no row. */
  readonly blank: number;
}

/** Scrolls an element with rows of 28 pixels: 200 steady steps, then 60 jumps. Runs in the page. */
const SCROLL = `async (scroller, rowClass) => {
  const frame = () => new Promise((next) => requestAnimationFrame(next));
  const times = [];
  let blank = 0;
  let last = await frame();
  const height = scroller.scrollHeight - scroller.clientHeight;
  const step = async (top) => {
    scroller.scrollTop = top;
    const now = await frame();
    times.push(now - last);
    last = now;
    // What the frame before this one left on the screen.
    const box = scroller.getBoundingClientRect();
    for (const y of [0.3, 0.6, 0.9]) {
      const seen = document.elementFromPoint(box.left + 40, box.top + y * box.height);
      if (!seen?.closest(rowClass)) blank++;
    }
  };
  for (let i = 0; i < 200; i++) await step(i * 140);
  const steady = blank;
  for (let i = 0; i < 60; i++) { await step((height * ((i * 37) % 60)) / 60); }
  return { times, blank, steady };
}`;

/** Nothing but empty rows where they are seen: the least that such a page can do. */
const BARE = `<style>
  body { margin: 0 } #s { height: 520px; overflow: auto; contain: strict } #b { position: relative }
  .row { position: absolute; left: 0; right: 0; height: 28px; border-bottom: 1px solid #ddd }
</style><div id="s"><div id="b" style="height: ${ROWS * 28}px"></div></div>`;
const DRAW_BARE = `() => {
  const [s, b] = [document.getElementById("s"), document.getElementById("b")];
  const rows = Array.from({ length: 44 }, () => b.appendChild(Object.assign(document.createElement("div"), { className: "row" })));
  const draw = () => {
    const first = Math.max(0, Math.floor(s.scrollTop / 28) - 12);
    rows.forEach((row, i) => { row.style.top = (first + i) * 28 + "px"; });
  };
  s.addEventListener("scroll", draw);
  draw();
}`;

async function measureScrolling(of: Browser): Promise<void> {
  const page = await enter(of, "#/t/Many");
  while (
    await page.evaluate(
      "!document.querySelector('.grid-foot').textContent.includes('end of the result')",
    )
  )
    await page.evaluate(
      "(() => { const g = document.querySelector('.grid'); g.scrollTop = g.scrollHeight; return new Promise((next) => requestAnimationFrame(next)); })()",
    );
  const { page: bare } = await openPage(of);
  await bare.setContent(BARE);
  await bare.evaluate(`(${DRAW_BARE})()`);
  const rounds: { own: Frames; least: Frames }[] = [];
  for (let i = 0; i < 3; i++) {
    await bare.bringToFront();
    const least = (await bare.evaluate(
      `(${SCROLL})(document.getElementById("s"), ".row")`,
    )) as Frames;
    await page.bringToFront();
    const own = (await page.evaluate(
      `(${SCROLL})(document.querySelector(".grid"), ".row")`,
    )) as Frames;
    rounds.push({ own, least });
  }
  const own = quantile(
    rounds.flatMap((each) => each.own.times),
    0.95,
  );
  const least = quantile(
    rounds.flatMap((each) => each.least.times),
    0.95,
  );
  const blank = rounds.reduce((sum, each) => sum + each.own.blank, 0);
  report(
    "scroll, frame p95 against empty rows",
    own / least,
    1.3,
    `${own.toFixed(1)} / ${least.toFixed(1)} ms`,
  );
  report("scroll, blank places", blank, 0, `of ${rounds.length * 260 * 3}`);
  await page.context().close();
  await bare.context().close();
}

async function measureOpening(of: Browser): Promise<void> {
  const page = await enter(of, "#/t/Short");
  const times: Record<string, number[]> = { Long: [], Short: [] };
  for (let i = 0; i < OPENINGS; i++)
    for (const table of i % 2 === 0 ? ["Long", "Short"] : ["Short", "Long"]) {
      await page.evaluate("location.hash = '#/'");
      await page.getByRole("heading", { name: "Tables" }).waitFor();
      const took = await page.evaluate(`new Promise((done) => {
        const from = performance.now();
        location.hash = "#/t/${table}";
        const look = () => {
          const foot = document.querySelector(".grid-foot");
          if (foot?.textContent.includes("100 shown") && document.querySelector("[role=gridcell]")) done(performance.now() - from);
          else requestAnimationFrame(look);
        };
        look();
      })`);
      times[table]!.push(took as number);
    }
  const [long, short] = [quantile(times.Long!, 0.5), quantile(times.Short!, 0.5)];
  report(
    "open, 100 long strings against short",
    long / short,
    1.2,
    `${long.toFixed(0)} / ${short.toFixed(0)} ms`,
  );
  await page.context().close();
}

async function measureKeystrokes(of: Browser): Promise<void> {
  const page = await enter(of, "#/t/Many");
  const devtools = await page.context().newCDPSession(page);
  await devtools.send("Performance.enable");
  const scripted = async () => {
    const { metrics } = await devtools.send("Performance.getMetrics");
    return 1000 * metrics.find(({ name }) => name === "ScriptDuration")!.value;
  };
  await page.keyboard.press("/");
  const times: number[] = [];
  for (const key of "PartitionKey eq 'p' and (n gt 5 or title ge 'a') and genre ne 'x'") {
    const before = await scripted();
    await page.keyboard.type(key);
    await page.evaluate("new Promise((next) => requestAnimationFrame(() => setTimeout(next, 20)))");
    times.push((await scripted()) - before);
  }
  const most = quantile(times, 0.95);
  report(
    "keystroke to plan, p95 of script in ms",
    most,
    16,
    `median ${quantile(times, 0.5).toFixed(1)} ms`,
  );
  await page.context().close();
}

/** CPU time from the start of the process until it serves, in turns. */
async function measureStart(): Promise<void> {
  const ratios: number[] = [];
  const ticks: Record<string, number[]> = { with: [], without: [] };
  for (let i = 0; i < STARTS; i++) {
    const pair = [await startTicks([]), await startTicks(["--noExplorer"])] as const;
    ticks.with!.push(pair[0]);
    ticks.without!.push(pair[1]);
    ratios.push(pair[0] / pair[1]);
  }
  const all = (of: readonly number[]) => of.reduce((sum, each) => sum + each, 0);
  report(
    "start-up, CPU with the explorer that nobody opens against without",
    all(ticks.with!) / all(ticks.without!),
    1.02,
    `${STARTS} pairs, median of ratios ${quantile(ratios, 0.5).toFixed(3)}`,
  );
}

async function startTicks(flags: readonly string[]): Promise<number> {
  const own = mkdtempSync(join(tmpdir(), "rowhouse-"));
  const ports = ["--tablePort", "0", "--queuePort", "0", "--blobPort", "0", "--location", own];
  const child = spawn(process.execPath, [...ROWHOUSE, "serve", ...ports, ...flags], {
    cwd: fileURLToPath(new URL("../..", import.meta.url)),
    stdio: ["ignore", "pipe", "inherit"],
    env: { ...process.env, AZURITE_ACCOUNTS: "" },
  });
  for await (const line of createInterface({ input: child.stdout })) {
    if (!line.includes("is serving") && !line.includes("Rowhouse-Table")) continue;
    const [, ...fields] = readFileSync(`/proc/${child.pid}/stat`, "utf8").split(") ");
    const [user, system] = fields.join(") ").split(" ").slice(11, 13);
    const exited = new Promise((resolve) => child.once("exit", resolve));
    child.kill("SIGTERM");
    await exited;
    rmSync(own, { recursive: true, force: true });
    return Number(user) + Number(system);
  }
  throw new Error("The server ended before it served.");
}

function quantile(values: readonly number[], share: number): number {
  const sorted = [...values].sort((a, b) => a - b);
  return sorted[Math.min(sorted.length - 1, Math.floor(share * sorted.length))]!;
}

function report(what: string, value: number, most: number, detail: string): void {
  const sign = value <= most ? "✔" : "✖";
  console.log(`${sign} ${what}: ${value.toFixed(2)} (at most ${most}; ${detail})`);
  if (value > most) process.exitCode = 1;
}

const folder = mkdtempSync(join(tmpdir(), "rowhouse-"));
const server = await startRowhouse(folder);
const browser = await openBrowser();
try {
  await load("Many", ROWS, () => ({ n: 1, title: "a title", genre: "some" }));
  await load("Long", 100, () => ({ text: "x".repeat(LONG) }));
  await load("Short", 100, () => ({ text: "x" }));
  await measureScrolling(browser);
  await measureOpening(browser);
  await measureKeystrokes(browser);
} finally {
  await browser.close();
  await server.stop();
  rmSync(folder, { recursive: true });
}
await measureStart();
