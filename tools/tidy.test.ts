import assert from "node:assert/strict";
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { dirname, join, normalize, relative } from "node:path";
import { describe, it } from "node:test";
import { fileURLToPath } from "node:url";

const root = join(dirname(fileURLToPath(import.meta.url)), "..");

/** What each folder may import, besides itself. The longest matching folder counts. */
const ALLOWED: Record<string, readonly string[]> = {
  "protocol/src": [],
  "patterns/src": [],
  "server/src/engine": [
    "server/src/clock.ts",
    "server/src/awaitable.ts",
    "server/src/byte-slab.ts",
    "server/src/byte-views.ts",
  ],
  "server/src/xml": ["protocol/src"],
  "server/src/wire": [
    "protocol/src",
    "server/src/xml",
    "server/src/engine/engine.ts",
    "server/src/awaitable.ts",
    "server/src/byte-slab.ts",
    "server/src/byte-views.ts",
  ],
  "server/src/query": ["protocol/src", "server/src/wire/identity.ts"],
  "server/src/auth": [
    "protocol/src",
    "server/src/wire",
    "server/src/clock.ts",
    "server/src/awaitable.ts",
  ],
  "server/src/catalog": [
    "protocol/src",
    "server/src/engine",
    "server/src/xml",
    "server/src/clock.ts",
    "server/src/awaitable.ts",
    "server/src/each-bounded.ts",
    "server/src/wire/operation.ts",
  ],
  "server/src/content": ["server/src/engine", "server/src/clock.ts", "server/src/awaitable.ts"],
  "server/src/http": [
    "protocol/src",
    "server/src/auth",
    "server/src/xml",
    "server/src/engine/engine.ts",
    "server/src/wire",
    "server/src/clock.ts",
    "server/src/awaitable.ts",
    "server/src/byte-slab.ts",
    "server/src/byte-views.ts",
  ],
  "server/src/insight": [
    "protocol/src",
    "server/src/auth/settings-section.ts",
    "server/src/query",
    "server/src/clock.ts",
    "server/src/awaitable.ts",
    "server/src/wire",
    "server/src/http/pages.ts",
    "server/src/http/raw-request.ts",
  ],
  "server/src/insight/advice": ["protocol/src", "server/src/query", "server/src/insight"],
  "server/src/table": [...services("table"), "server/src/insight"],
  "server/src/queue": services("queue"),
  "server/src/blob": [...services("blob"), "server/src/insight"],
  "server/src/blob/contents": [
    "protocol/src",
    "server/src/wire",
    "server/src/catalog",
    "server/src/content",
    "server/src/engine",
    "server/src/awaitable.ts",
    "server/src/each-bounded.ts",
    "server/src/byte-slab.ts",
    "server/src/byte-views.ts",
    "server/src/blob/blob-keys.ts",
    "server/src/blob/blob-record.ts",
  ],
  "server/src": ["protocol/src", "server/src"],
  "cli/src": ["protocol/src", "server/src", "patterns/src"],
};

/** A service may import everything below it and neither of the other services. */
function services(name: string): string[] {
  const below = [
    "protocol/src",
    "server/src/wire",
    "server/src/auth",
    "server/src/xml",
    "server/src/http/service.ts",
    "server/src/http/storage-refusals.ts",
    "server/src/catalog",
    "server/src/content",
    "server/src/query",
    "server/src/engine",
  ];
  const beside = [
    "server/src/clock.ts",
    "server/src/awaitable.ts",
    "server/src/each-bounded.ts",
    "server/src/byte-slab.ts",
    "server/src/byte-views.ts",
  ];
  return [`server/src/${name}`, ...below, ...beside];
}

/** Packages that only the listed places may import. */
const ONLY_IN: Record<string, readonly string[]> = {
  "node:http": ["server/src/http", "patterns/src/transport.ts"],
  "node:https": ["server/src/http", "patterns/src/transport.ts"],
  "node:net": ["server/src/http", "server/src/engine/postgres"],
  lmdb: ["server/src/engine/lmdb"],
  pg: ["server/src/engine/postgres"],
  jose: ["server/src/auth"],
  "fast-xml-parser": ["server/src/xml"],
};

/** Folders that use nothing of Node. */
const IN_BROWSERS = ["protocol/src", "server/src/query"];

/** Tests, files that only tests use, and the conformance suites for engines, stores and ports. */
const FOR_TESTS = /\.test\.ts$|\/test-|conformance/;

describe("Every import points in a direction that ARCHITECTURE.md allows", () => {
  for (const file of sourceFiles()) {
    it(file, () => {
      for (const specifier of importsOf(file)) {
        if (FOR_TESTS.test(file)) continue;
        const target = targetOf(file, specifier);
        if (target === undefined) {
          const places = ONLY_IN[specifier];
          assert.ok(
            !places || places.some((place) => file.startsWith(place)),
            `${file} imports ${specifier}, which belongs to ${places}.`,
          );
          assert.ok(
            !IN_BROWSERS.some((place) => file.startsWith(place)) || !specifier.startsWith("node:"),
            `${file} imports ${specifier}; it runs in browsers too.`,
          );
          continue;
        }
        assert.ok(
          !target.includes("/test-"),
          `${file} imports ${target}, which is for tests alone.`,
        );
        const place = placeOf(file);
        const allowed = [place, ...(ALLOWED[place] ?? [])];
        assert.ok(
          allowed.some(
            (each) =>
              target === each || target.startsWith(each.endsWith(".ts") ? each : `${each}/`),
          ),
          `${file} imports ${target}; ${place} may import ${allowed.join(", ")}.`,
        );
      }
    });
  }
});

/** Entry points: nothing here imports them. Those of patterns are for its users to import. */
const ENTRY_POINTS = ["server/src/server.ts", "cli/src/main.ts", "patterns/src/"];

describe("Every file that only tests import is named test-….ts", () => {
  const imported = new Set(
    sourceFiles()
      .filter((file) => !FOR_TESTS.test(file))
      .flatMap((file) => importsOf(file).map((specifier) => targetOf(file, specifier))),
  );
  for (const file of sourceFiles()) {
    if (FOR_TESTS.test(file) || ENTRY_POINTS.some((each) => file.startsWith(each))) continue;
    it(file, () => {
      assert.equal(imported.has(file), true, `Only tests import ${file}.`);
    });
  }
});

function sourceFiles(): string[] {
  const folders = ["protocol/src", "server/src", "patterns/src", "cli/src"];
  return folders
    .filter((folder) => existsSync(join(root, folder)))
    .flatMap((folder) =>
      readdirSync(join(root, folder), { recursive: true, encoding: "utf8" })
        .filter((name) => name.endsWith(".ts"))
        .map((name) => join(folder, name)),
    );
}

function importsOf(file: string): string[] {
  const text = readFileSync(join(root, file), "utf8");
  const imports =
    /^(?:import|export)\b[^"';]*?from "([^"]+)"|^import "([^"]+)"|\bimport\("([^"]+)"\)/gm;
  return Array.from(
    text.matchAll(imports),
    ([, from, alone, later]) => from ?? alone ?? later ?? "",
  );
}

/** The file of this repository that an import refers to; undefined for packages. */
function targetOf(file: string, specifier: string): string | undefined {
  if (specifier.startsWith("."))
    return normalize(relative(root, join(root, dirname(file), specifier)));
  const own = /^@rowhouse\/(\w+)(?:\/(.+))?$/.exec(specifier);
  return own ? `${own[1]}/src/${own[2] ?? "index"}.ts` : undefined;
}

function placeOf(file: string): string {
  const places = Object.keys(ALLOWED).filter((place) => file.startsWith(`${place}/`));
  return places.sort((a, b) => b.length - a.length)[0]!;
}
