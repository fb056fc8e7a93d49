import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { basename, join } from "node:path";
import { describe, it } from "node:test";
import { fileURLToPath } from "node:url";
import { stripVTControlCharacters } from "node:util";

const root = fileURLToPath(new URL("../..", import.meta.url));
const fixtures = join(root, "patterns/type-tests");
const INSTANTIATIONS_PER_ENTITY_MAX = 1050;

describe("the declarations", () => {
  it("compile, or fail to compile, exactly as the fixtures say", () => {
    const found = errorsOf(compile(fixtures, "--pretty").output);
    for (const name of readdirSync(fixtures).filter((name) => name.endsWith(".ts"))) {
      const lines = readFileSync(join(fixtures, name), "utf8").split("\n");
      for (const [i, line] of lines.entries()) {
        const error = found.get(`${name}:${i + 1}`);
        found.delete(`${name}:${i + 1}`);
        const expected = lines[i - 1]?.match(/^\s*\/\/ error: (.*)$/)?.[1];
        assert.equal(
          error !== undefined,
          expected !== undefined,
          `${name}:${i + 1} ${line}\n${error}`,
        );
        if (expected) assert.ok(error?.includes(expected), `${name}:${i + 1} says\n${error}`);
      }
    }
    assert.deepEqual([...found.keys()], []);
  });

  it("say why a query that scans is refused, also where the compiler prints one line for each error", () => {
    const { output } = compile(fixtures, "--pretty", "false");
    const refused = output
      .split("\n")
      .filter((line) => /error TS2345: Argument of type '\[\]'/.test(line));
    assert.ok(refused.length >= 4, output);
    for (const line of refused) assert.match(line, /Add an index, or pass \{ allow: '[a-z]+-scan'/);
  });

  it("cost about a thousand type instantiations for each entity", () => {
    const [few, many] = [10, 40];
    const perEntity = (instantiations(many) - instantiations(few)) / (many - few);
    assert.ok(perEntity <= INSTANTIATIONS_PER_ENTITY_MAX, `${perEntity} instantiations per entity`);
  });
});

function compile(project: string, ...options: string[]): { output: string } {
  const tsc = join(root, "node_modules/typescript/bin/tsc");
  const { stdout } = spawnSync(process.execPath, [tsc, "-p", project, ...options], {
    cwd: root,
    encoding: "utf8",
  });
  return { output: stdout };
}

/** The whole text of each error, with related information, by file and line. */
function errorsOf(output: string): Map<string, string> {
  const plain = stripVTControlCharacters(output);
  const errors = new Map<string, string>();
  for (const text of plain.split(/\n(?=\S+\.ts:\d+:\d+ - error )/)) {
    const place = text.match(/^(\S+\.ts):(\d+):\d+ - error /);
    if (place) errors.set(`${basename(place[1]!)}:${place[2]}`, text);
  }
  return errors;
}

/** The type instantiations for a file of `count` entities, each with 12 fields, 3 access paths and 3 calls. */
function instantiations(count: number): number {
  const folder = mkdtempSync(join(fixtures, ".budget-"));
  try {
    const source = [
      'import { connect, entity, f, k } from "../../src/index.ts";',
      'import { siblingIndex } from "../../src/sibling-index.ts";',
      'import { memory } from "../../src/testing.ts";',
      "const db = connect(memory());",
      ...Array.from({ length: count }, (_, i) => syntheticEntity(i)),
    ];
    writeFileSync(join(folder, "entities.ts"), source.join("\n"));
    const config = {
      extends: "../tsconfig.json",
      compilerOptions: { rootDir: "../../.." },
      include: ["*.ts"],
    };
    writeFileSync(join(folder, "tsconfig.json"), JSON.stringify(config));
    const { output } = compile(folder, "--extendedDiagnostics");
    assert.doesNotMatch(output, /error TS/);
    return Number(output.match(/Instantiations:\s+(\d+)/)?.[1]);
  } finally {
    rmSync(folder, { recursive: true });
  }
}

function syntheticEntity(i: number): string {
  return `
const E${i} = entity("E${i}", {
  version: 1,
  fields: {
    dept${i}: f.string(), id${i}: f.int32(), email${i}: f.string(), last${i}: f.string(), hired${i}: f.date(),
    age${i}: f.int32().optional(), a${i}: f.string(), b${i}: f.double(), c${i}: f.bool(), d${i}: f.int64(),
    e${i}: f.bytes().optional(), g${i}: f.guid(),
  },
  key: { partition: [k.str("dept${i}")], row: [k.lit("e"), k.uint("id${i}", 6)] },
  indexes: {
    email: siblingIndex({ row: [k.lit("email"), k.str("email${i}")], unique: true }),
    last: siblingIndex({ row: [k.lit("last"), k.str("last${i}"), k.uint("id${i}", 6)], copy: ["email${i}"] }),
  },
});
const r${i} = db.open(E${i});
export async function use${i}(key: { dept${i}: string; id${i}: number }) {
  const found = await r${i}.get(key);
  await r${i}.by.email.get({ dept${i}: "x", email${i}: found?.email${i} ?? "" });
  return r${i}.by.last.range({ dept${i}: "x", last${i}: "y", id${i}: { gte: 5 } }).all();
}`;
}
