import { existsSync, readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { fileURLToPath } from "node:url";
import { type Browser, type BrowserContextOptions, chromium, type Page } from "playwright-core";

/** Debian's chromium, or another that `CHROMIUM` names. */
export const CHROMIUM = process.env.CHROMIUM ?? "/usr/bin/chromium";
export const hasBrowser = existsSync(CHROMIUM);

const AXE = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");

export function openBrowser(): Promise<Browser> {
  // A container's root has no sandbox of the system.
  return chromium.launch({ executablePath: CHROMIUM, args: ["--no-sandbox"] });
}

export interface WatchedPage {
  readonly page: Page;
  /** What went wrong in it: errors of scripts, and violations of its content policy. */
  readonly faults: readonly string[];
}

/** A page in a context of its own: nothing is remembered from another. */
export async function openPage(
  browser: Browser,
  options: BrowserContextOptions = {},
): Promise<WatchedPage> {
  const viewport = { width: 1200, height: 760 };
  const context = await browser.newContext({ viewport, reducedMotion: "reduce", ...options });
  const page = await context.newPage();
  page.setDefaultTimeout(20_000);
  const faults: string[] = [];
  page.on("pageerror", (error) => faults.push(String(error.stack ?? error)));
  page.on("dialog", (dialog) => {
    faults.push(`a dialog: ${dialog.message()}`);
    dialog.dismiss();
  });
  page.on("console", (message) => {
    // The browser reports every refusal of the server this way, whether the page expected it or not.
    if (message.type() === "error" && !message.text().startsWith("Failed to load resource"))
      faults.push(message.text());
  });
  return { page, faults };
}

/** With `SCREENSHOTS=1` the manual's pictures are taken again. */
export const takesScreenshots = process.env.SCREENSHOTS === "1";

export async function screenshot(page: Page, name: string): Promise<void> {
  const path = fileURLToPath(new URL(`../../docs/manual/${name}.png`, import.meta.url));
  await page.screenshot({ path });
}

/** What keeps people from using the screen as it is: one line for each kind, with the first element. */
export async function violationsOf(page: Page): Promise<string[]> {
  await page.evaluate(AXE);
  const { violations } = (await page.evaluate("axe.run({ resultTypes: ['violations'] })")) as {
    violations: { id: string; help: string; nodes: { html: string; failureSummary: string }[] }[];
  };
  return violations.map(
    ({ id, help, nodes }) => `${id}: ${help}: ${nodes[0]?.html} ${nodes[0]?.failureSummary}`,
  );
}
