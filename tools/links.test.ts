import assert from "node:assert/strict";
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { describe, it } from "node:test";
import { fileURLToPath } from "node:url";

const root = fileURLToPath(new URL("..", import.meta.url));

describe("Links between documents lead somewhere", () => {
  for (const file of documents("")) {
    it(file, () => {
      const text = readFileSync(join(root, file), "utf8").replace(/^(```|~~~).*?^\1/gms, "");
      for (const [, target = ""] of text.matchAll(/\]\(([^)\s]+)\)/g)) {
        if (/^[a-z]+:/.test(target)) continue;
        const [path = "", heading] = target.split("#");
        const linked = path === "" ? file : join(dirname(file), path);
        assert.equal(existsSync(join(root, linked)), true, `${target} does not exist.`);
        if (heading === undefined || !linked.endsWith(".md")) continue;
        assert.equal(headingsOf(linked).includes(heading), true, `${target}: no such heading.`);
      }
    });
  }
});

/** Every Markdown file that belongs to the repository. */
function documents(folder: string): string[] {
  return readdirSync(join(root, folder), { withFileTypes: true }).flatMap((entry) => {
    if (/^(\.|node_modules$|dist$|rowhouse-data$)/.test(entry.name)) return [];
    const path = join(folder, entry.name);
    if (entry.isDirectory()) return documents(path);
    return entry.name.endsWith(".md") ? [path] : [];
  });
}

/** The anchors of a document's headings, as they are made everywhere. */
function headingsOf(file: string): string[] {
  const text = readFileSync(join(root, file), "utf8");
  return [...text.matchAll(/^#+ (.+)$/gm)].map(([, heading = ""]) =>
    heading
      .toLowerCase()
      .replace(/[^\p{L}\p{N}\s_-]/gu, "")
      .trim()
      .replaceAll(" ", "-"),
  );
}
