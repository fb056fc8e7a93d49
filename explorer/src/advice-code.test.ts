import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, it } from "node:test";
import { fileURLToPath } from "node:url";
import type { EdmType } from "@rowhouse/protocol/edm";
import type { Finding } from "@rowhouse/server/insight/advice/rule";
import { codeOf } from "./advice-code.ts";
import type { Row } from "./entities.ts";

const ROOT = fileURLToPath(new URL("../../", import.meta.url));

const PATTERNS = [
  ...["intra-partition secondary index", "inter-partition secondary index", "key spreading"],
  ...["log tail", "data series in one entity", "entity group transactions", "compound key"],
  ...["partition key for the query", "projection", "choosing the write verb"],
  ...["large values in blobs", "log data in blobs"],
];

function found(pattern: string, table: string, key?: string): Finding {
  const remedy = { pattern, advice: "", layout: [], ...(key && { kept: `create X --key ${key}` }) };
  return { rule: "scan", table, subject: "", title: "", evidence: [], cost: "", remedy };
}

function row(types: Readonly<Record<string, EdmType>>): Row {
  const cells = new Map(Object.entries(types).map(([name, type]) => [name, { type, text: "" }]));
  return { partitionKey: "p", rowKey: "r", cells };
}

/** Every type, names that the code wants itself, and one that is no identifier. */
const ROWS: readonly (readonly Row[])[] = [
  [],
  [
    row({
      ...{ email: "Edm.String", age: "Edm.Int32", big: "Edm.Int64", price: "Edm.Double" },
      ...{ ok: "Edm.Boolean", born: "Edm.DateTime", ref: "Edm.Guid", photo: "Edm.Binary" },
    }),
  ],
  [row({ photo: "Edm.Binary", id: "Edm.Int32", partition: "Edm.Double", straße: "Edm.String" })],
  [row({ at: "Edm.String", entryId: "Edm.String", etag: "Edm.String", Timestamp: "Edm.DateTime" })],
];

describe("The code that the advisor shows", () => {
  it("is of the table's own names and types", () => {
    const finding = found(
      "intra-partition secondary index",
      "a/Rides",
      "PartitionKey,price:Double",
    );
    const code = codeOf(finding, ROWS[1])!;
    assert.match(code, /export const Rides = entity\("Rides", \{/);
    assert.match(code, /email: f\.string\(\), age: f\.int32\(\)/);
    assert.match(
      code,
      /siblingIndex\(\{ row: \[k\.lit\("found"\), k\.double\("price"\), k\.str\("id"\)\]/,
    );
  });

  it("is none for what is no pattern of the library, or of no table", () => {
    assert.equal(codeOf(found("connection reuse", "a/Rides")), undefined);
    assert.equal(codeOf(found("key spreading", "a")), undefined);
  });

  it("compiles, for every pattern and every kind of property", () => {
    const files = new Map<string, string>();
    for (const pattern of PATTERNS)
      for (const [i, rows] of ROWS.entries())
        for (const key of [undefined, "PartitionKey,age:Int32,email:String"]) {
          const code = codeOf(found(pattern, `a/${i === 2 ? "delete" : "Rides"}`, key), rows);
          assert.ok(code, pattern);
          files.set(`advised-${files.size}.ts`, code);
        }
    const [first] = [...files.values()];
    files.set("wrong.ts", first!.replace('k.str("partition")', 'k.int64("partition")'));
    const problems = problemsOf(files).filter((line) => /\.ts\(/.test(line));
    assert.deepEqual(
      problems.filter((line) => !line.includes("wrong.ts(")),
      [],
    );
    assert.ok(problems.length > 0);
  });
});

/** What the compiler says of sources, by file name: lines. */
function problemsOf(files: ReadonlyMap<string, string>): string[] {
  const folder = mkdtempSync(join(ROOT, ".check-"));
  try {
    for (const [name, code] of files) writeFileSync(join(folder, name), code);
    const compilerOptions = {
      ...{ strict: true, noEmit: true, skipLibCheck: true, types: ["node"], module: "nodenext" },
      ...{ target: "es2023", allowImportingTsExtensions: true },
      customConditions: ["rowhouse-source"],
    };
    writeFileSync(join(folder, "tsconfig.json"), JSON.stringify({ compilerOptions }));
    const compiler = join(ROOT, "node_modules/typescript/bin/tsc");
    const { stdout } = spawnSync(process.execPath, [compiler, "-p", folder], { encoding: "utf8" });
    return stdout.split("\n");
  } finally {
    rmSync(folder, { recursive: true });
  }
}
