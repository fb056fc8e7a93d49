import assert from "node:assert/strict";
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { dirname, join, normalize, relative } from "node:path";
import { describe, it } from "node:test";
import { fileURLToPath } from "node:url";

const root = join(dirname(fileURLToPath(import.meta.url)), "..");

/** What each of the three services may import; none may import another. */
const SERVICES = [
  "protocol/src",
  "server/src/wire",
  "server/src/auth",
  "server/src/xml",
  "server/src/http/service.ts",
  "server/src/catalog",
  "server/src/engine",
  "server/src/clock.ts",
  "server/src/awaitable.ts",
  "server/src/byte-views.ts",
];

/** What each folder may import, besides itself. The longest matching folder counts. */
const ALLOWED: Record<string, readonly string[]> = {
  "protocol/src": [],
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
    "server/src/engine/time-slice.ts",
    "server/src/awaitable.ts",
    "server/src/byte-slab.ts",
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
  "server/src/content": ["server/src/engine", "server/src/awaitable.ts", "server/src/own-pages.ts"],
  "server/src/http": [
    "protocol/src",
    "server/src/auth",
    "server/src/xml",
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
  ],
  "server/src/insight/advice": ["protocol/src", "server/src/query", "server/src/insight"],
  "server/src/table": [
    ...SERVICES,
    "server/src/query",
    "server/src/insight",
    "server/src/byte-slab.ts",
  ],
  "server/src/queue": [
    ...SERVICES,
    "server/src/http/storage-refusals.ts",
    "server/src/each-bounded.ts",
  ],
  "server/src/blob": [
    ...SERVICES,
    "server/src/http/storage-refusals.ts",
    "server/src/content",
    "server/src/insight",
  ],
  "server/src/blob/content-life": [
    "protocol/src",
    "server/src/wire",
    "server/src/catalog",
    "server/src/content",
    "server/src/engine",
    "server/src/awaitable.ts",
    "server/src/each-bounded.ts",
    "server/src/byte-slab.ts",
    "server/src/own-pages.ts",
    "server/src/byte-views.ts",
    "server/src/blob/blob-keys.ts",
    "server/src/blob/blob-record.ts",
  ],
  "server/src/explorer": [
    "protocol/src",
    "server/src/engine",
    "server/src/catalog/key-spaces.ts",
    "server/src/auth",
    "server/src/wire",
    "server/src/http/pages.ts",
    "server/src/http/raw-request.ts",
    "server/src/http/lane-limits.ts",
    "server/src/clock.ts",
  ],
  "server/src": [],
  // The page: a client like any other, with the parser and the planner of the server.
  "explorer/src": ["protocol/src", "patterns/src", "server/src/query", "server/src/insight"],
  "cli/src": ["protocol/src", "server/src", "patterns/src", "explorer/src/assets.ts"],
};

/**
 * The same for the patterns, as an order. The core is listed lowest first: each folder may import those before it.
 * The parts of patterns may import all of the core; the entry points, at the root, may import everything.
 */
function patternLayers(): Record<string, readonly string[]> {
  const core = ["keys", "ports", "store", "model", "query", "entities"];
  const inPatterns = (name: string) => `patterns/src/${name}`;
  const below = (count: number) => ["errors.ts", ...core.slice(0, count)].map(inPatterns);
  const layers = core.map((name, i) => [inPatterns(name), below(i)] as const);
  const all = below(core.length);
  return {
    ...Object.fromEntries(layers),
    "patterns/src/azure": below(3),
    "patterns/src/messages": all,
    "patterns/src/indexes": all,
    "patterns/src/lists": [...all, inPatterns("messages")],
    "patterns/src/logs": all,
    "patterns/src/remote": [...all, inPatterns("messages")],
    "patterns/src/views": [...all, inPatterns("indexes")],
    "patterns/src/testing": [...all, inPatterns("database.ts")],
    "patterns/src": ["patterns/src"],
  };
}

const PLACES: Record<string, readonly string[]> = { ...ALLOWED, ...patternLayers() };

/** Packages that only the listed places may import. */
const ONLY_IN: Record<string, readonly string[]> = {
  "node:http": ["server/src/http", "patterns/src/transport.ts", "cli/src/healthcheck.ts"],
  "node:https": ["server/src/http", "patterns/src/transport.ts", "cli/src/healthcheck.ts"],
  "node:net": ["server/src/http", "server/src/engine/postgres", "cli/src/reachable.ts"],
  lmdb: ["server/src/engine/lmdb"],
  pg: ["server/src/engine/postgres"],
  jose: ["server/src/auth"],
  "fast-xml-parser": ["server/src/xml"],
};

/** Folders that use nothing of Node. */
const IN_BROWSERS = [
  "protocol/src",
  "server/src/query",
  "explorer/src",
  // What makes a query cheaper, which the explorer says.
  "server/src/insight/query-remedy.ts",
  "server/src/insight/index-layout.ts",
  "server/src/insight/remedy.ts",
];

/** Folders without circular imports. */
const WITHOUT_CIRCLES = [
  ...["protocol/src", "patterns/src", "explorer/src"],
  ...["cli/src", "server/src"],
];

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
        const allowed = [place, ...(PLACES[place] ?? [])];
        assert.ok(
          allowed.some((each) => isBelow(target, each)),
          `${file} imports ${target}; ${place} may import ${allowed.join(", ")}.`,
        );
      }
    });
  }
});

describe("No folder is allowed an import that it does not need", () => {
  const uses = new Map<string, Set<string>>();
  for (const file of sourceFiles().filter((file) => !FOR_TESTS.test(file))) {
    const targets = uses.get(placeOf(file)) ?? new Set();
    uses.set(placeOf(file), targets);
    for (const specifier of importsOf(file)) targets.add(targetOf(file, specifier) ?? "");
  }
  for (const [place, allowed] of Object.entries(ALLOWED)) {
    it(place, () => {
      const targets = [...(uses.get(place) ?? [])];
      const unused = allowed.filter((each) => !targets.some((target) => isBelow(target, each)));
      assert.deepEqual(unused, [], "remove these from ALLOWED");
    });
  }
});

describe("No file imports itself by way of others", () => {
  const imports = new Map(
    sourceFiles().map((file) => [
      file,
      FOR_TESTS.test(file)
        ? []
        : importsOf(file).flatMap((specifier) => targetOf(file, specifier) ?? []),
    ]),
  );
  for (const folder of WITHOUT_CIRCLES) {
    it(folder, () => {
      const done = new Set<string>();
      const visit = (file: string, path: readonly string[]) => {
        assert.ok(!path.includes(file), `${[...path.slice(path.indexOf(file)), file].join(" → ")}`);
        if (done.has(file)) return;
        for (const target of imports.get(file) ?? []) visit(target, [...path, file]);
        done.add(file);
      };
      for (const file of imports.keys()) if (file.startsWith(folder)) visit(file, []);
    });
  }
});

/** Entry points: nothing here imports them. Those of patterns are for its users to import. */
const ENTRY_POINTS = [
  "server/src/server.ts",
  "explorer/src/main.tsx",
  "cli/src/main.ts",
  "cli/src/testing.ts",
  ...readdirSync(join(root, "patterns/src")).map((name) => `patterns/src/${name}`),
];

describe("Every file that only tests import is named test-….ts", () => {
  const imported = new Set(
    sourceFiles()
      .filter((file) => !FOR_TESTS.test(file))
      .flatMap((file) => importsOf(file).map((specifier) => targetOf(file, specifier))),
  );
  for (const file of sourceFiles()) {
    if (FOR_TESTS.test(file) || ENTRY_POINTS.includes(file)) continue;
    it(file, () => {
      assert.equal(imported.has(file), true, `Only tests import ${file}.`);
    });
  }
});

function sourceFiles(): string[] {
  const folders = ["protocol/src", "server/src", "patterns/src", "explorer/src", "cli/src"];
  return folders
    .filter((folder) => existsSync(join(root, folder)))
    .flatMap((folder) =>
      readdirSync(join(root, folder), { recursive: true, encoding: "utf8" })
        .filter((name) => /(?<!\.d)\.tsx?$/.test(name))
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

/** Whether a file is this one, or in this folder. */
function isBelow(file: string, place: string): boolean {
  return file === place || file.startsWith(`${place}/`);
}

function placeOf(file: string): string {
  const places = Object.keys(PLACES).filter((place) => file.startsWith(`${place}/`));
  return places.sort((a, b) => b.length - a.length)[0]!;
}
