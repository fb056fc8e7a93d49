import assert from "node:assert/strict";
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { describe, it } from "node:test";
import { fileURLToPath } from "node:url";

const root = fileURLToPath(new URL("..", import.meta.url));

const documents = filesOf("", ".md");

/** Published packages contain these pages of the repository, at the same paths. */
const PACKED = /^(docs\/manual\/|COMPATIBILITY\.md$)/;
const PUBLISHED = ["cli/README.md", "patterns/README.md"];

function targetOf(file: string, path: string): string {
  return PUBLISHED.includes(file) && PACKED.test(path) ? path : join(dirname(file), path);
}

describe("Every link between documents leads to an existing file and heading", () => {
  for (const file of documents) {
    it(file, () => {
      const text = readFileSync(join(root, file), "utf8").replace(/^(```|~~~).*?^\1/gms, "");
      for (const [, target = ""] of text.matchAll(/\]\(([^)\s]+)\)/g)) {
        if (/^[a-z]+:/.test(target)) continue;
        const [path = "", heading] = target.split("#");
        const linked = path === "" ? file : targetOf(file, path);
        assert.equal(existsSync(join(root, linked)), true, `${target} does not exist.`);
        if (heading === undefined || !linked.endsWith(".md")) continue;
        assert.equal(headingsOf(linked).includes(heading), true, `${target}: no such heading.`);
      }
    });
  }
});

describe("The README of a package, which is packed without the repository,", () => {
  const { workspaces } = JSON.parse(readFileSync(join(root, "package.json"), "utf8"));
  for (const folder of workspaces) {
    it(`links to nothing outside of ${folder}, but for pages that are packed with it`, () => {
      const text = readFileSync(join(root, folder, "README.md"), "utf8");
      for (const [, target = ""] of text.matchAll(/\]\(([^)\s]+)\)/g)) {
        if (/^([a-z]+:|#)/.test(target) || PACKED.test(target)) continue;
        assert.equal(join(folder, target).startsWith(join(folder, "/")), true, target);
      }
    });
  }
});

describe("Every .ts file named in a comment or document exists", () => {
  const sources = filesOf("", ".ts");
  const names = new Set(sources.flatMap((file) => endings(file)));
  for (const file of [...sources, ...documents]) {
    it(file, () => {
      const text = readFileSync(join(root, file), "utf8");
      const prose = file.endsWith(".ts") ? commentsOf(text) : text;
      for (const [, name = ""] of prose.matchAll(/`([\w./-]*\w\.ts)`/g))
        assert.equal(names.has(name), true, `${name} does not exist.`);
    });
  }
});

/** The forms in which a path may be named: whole, or from any of its folders on. */
function endings(path: string): string[] {
  const parts = path.split("/");
  return parts.map((_, i) => parts.slice(i).join("/"));
}

function commentsOf(source: string): string {
  return Array.from(source.matchAll(/\/\*.*?\*\/|\/\/ .*?$/gms), ([comment]) => comment).join("\n");
}

/** Every file of the repository with this ending. */
function filesOf(folder: string, ending: string): string[] {
  return readdirSync(join(root, folder), { withFileTypes: true }).flatMap((entry) => {
    if (/^(\.|node_modules$|dist$|rowhouse-data$)/.test(entry.name)) return [];
    const path = join(folder, entry.name);
    if (entry.isDirectory()) return filesOf(path, ending);
    return entry.name.endsWith(ending) ? [path] : [];
  });
}

/** The anchors of a document's headings, as Markdown renderers generate them. */
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
