import assert from "node:assert/strict";
import { existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import type { Browser, Locator, Page } from "playwright-core";

const FOLDER = fileURLToPath(new URL("./snapshots/", import.meta.url));
/** With `SNAPSHOTS=1` what the screens are now is what they are to be. */
const writes = process.env.SNAPSHOTS === "1";

/** Of the pixels, as many may differ: what another release of the browser rounds otherwise. */
const DIFFERENT_MAX = 0.002;
/** Of 255: less is no difference. */
const SHADE = 8;

/**
 * What a screen is for who does not see it: roles, names and states, as text. It is the same whatever data and time it
 * is: text and numbers are left out, and of rows, items and articles only the first is kept.
 */
export async function matchesStructure(screen: Locator, name: string): Promise<void> {
  compare(`${name}.yaml`, structureOf(await screen.ariaSnapshot()));
}

/** The same for what has no data in it: every word. */
export async function matchesWords(screen: Locator, name: string): Promise<void> {
  compare(`${name}.yaml`, `${await screen.ariaSnapshot()}\n`);
}

/** Roles without a structure of their own. */
const TEXT = new Set(["text", "paragraph", "code", "strong", "option"]);
/** Roles of data: they repeat, and are named after what is in them. */
const DATA = new Set(["row", "cell", "gridcell", "rowheader", "listitem", "article", "figure"]);
const REPEATED = new Set(["row", "listitem", "article"]);

/** @param snapshot as playwright writes it: a list in YAML, two spaces deeper for each level */
export function structureOf(snapshot: string): string {
  const kept: string[] = [];
  /** Lines deeper than this belong to what was left out. */
  let leftOut = Number.POSITIVE_INFINITY;
  /** By depth, the role of the last line kept there. */
  const last: string[] = [];
  for (const line of snapshot.split("\n")) {
    const depth = line.search(/\S/) / 2;
    if (depth < 0 || depth > leftOut) continue;
    leftOut = Number.POSITIVE_INFINITY;
    const [, role, name = "", states = ""] =
      /^\s*- '?(\w+)(?: "((?:[^"\\]|\\.)*)")?((?: \[[^\]]*\])*)/.exec(line) ?? [];
    last.length = Math.min(last.length, depth + 1);
    if (role === undefined || TEXT.has(role) || (REPEATED.has(role) && last[depth] === role)) {
      leftOut = depth;
      continue;
    }
    last[depth] = role;
    const said = DATA.has(role) ? "" : withoutData(name);
    kept.push(`${"  ".repeat(depth)}- ${role}${said && ` "${said}"`}${states}`);
  }
  return `${kept.join("\n")}\n`;
}

/** What comes after a colon is a value, and a word with a digit is a number, or a name of somebody's. */
function withoutData(name: string): string {
  return name.replace(/:.*/, "").replace(/[\w.,-]*\d[\w.,:-]*/g, "#");
}

/** What words are drawn in, so that the shapes of letters, which differ from system to system, change nothing. */
export async function withoutWords(page: Page, look: () => Promise<void>): Promise<void> {
  await page.evaluate(`{
    const sheet = new CSSStyleSheet();
    sheet.replaceSync("* { color: transparent !important; white-space: nowrap !important; }");
    document.adoptedStyleSheets = [sheet];
  }`);
  await look();
  await page.evaluate("document.adoptedStyleSheets = []");
}

/**
 * What a drawing looks like, without its text, whose shapes differ from system to system.
 * @param part of it, in its own pixels
 */
export async function matchesPicture(
  drawing: Locator,
  name: string,
  part: { x: number; y: number; width: number; height: number },
): Promise<void> {
  await drawing.scrollIntoViewIfNeeded();
  const box = (await drawing.boundingBox())!;
  const clip = { ...part, x: Math.round(box.x) + part.x, y: Math.round(box.y) + part.y };
  const now = await drawing.page().screenshot({ clip, scale: "css" });
  const path = `${FOLDER}${name}.png`;
  if (writes) {
    write(path, now);
    return;
  }
  const browser = drawing.page().context().browser()!;
  const share = await differenceOf(browser, readFileSync(path), now);
  if (share > DIFFERENT_MAX) {
    writeFileSync(`${path}.now.png`, now);
    assert.fail(
      `${name} looks different in ${(share * 100).toFixed(1)} % of its pixels: see ${path}.now.png. If it is to look so: SNAPSHOTS=1.`,
    );
  }
}

/** The share of pixels that differ, which the browser itself counts: it reads pictures anyway. */
async function differenceOf(browser: Browser, one: Buffer, other: Buffer): Promise<number> {
  const page = await browser.newPage();
  try {
    const urls = [one, other].map((each) => `data:image/png;base64,${each.toString("base64")}`);
    return await page.evaluate<number>(`(async () => {
      const [one, other] = await Promise.all(${JSON.stringify(urls)}.map(async (url) => {
        const image = await createImageBitmap(await (await fetch(url)).blob());
        const pen = new OffscreenCanvas(image.width, image.height).getContext("2d");
        pen.drawImage(image, 0, 0);
        return pen.getImageData(0, 0, image.width, image.height);
      }));
      if (one.width !== other.width || one.height !== other.height) return 1;
      let different = 0;
      for (let at = 0; at < one.data.length; at += 4)
        if ([0, 1, 2].some((i) => Math.abs(one.data[at + i] - other.data[at + i]) > ${SHADE})) different++;
      return (different * 4) / one.data.length;
    })()`);
  } finally {
    await page.close();
  }
}

function compare(file: string, now: string): void {
  const path = FOLDER + file;
  if (writes) {
    write(path, now);
    return;
  }
  const known = existsSync(path) ? readFileSync(path, "utf8") : "";
  assert.equal(now, known, `The structure of ${file}. If it is to be so: SNAPSHOTS=1.`);
}

function write(path: string, content: string | Uint8Array): void {
  mkdirSync(FOLDER, { recursive: true });
  writeFileSync(path, content);
}
