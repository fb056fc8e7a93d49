import assert from "node:assert/strict";
import { copyFileSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { after, before, describe, it } from "node:test";
import { fileURLToPath } from "node:url";
import { check } from "rowhouse/patterns/check";
import { run } from "./account.ts";

/** In the repository, so that the modules written there find the library. */
const here = fileURLToPath(new URL(".", import.meta.url));
const schema = join(here, "schema.ts");
let folder: string;
before(() => {
  folder = mkdtempSync(join(here, ".check-"));
});
after(() => rmSync(folder, { recursive: true }));

/** Writes a module with one entity into its own folder, so that it is not cached. */
function moduleOf({
  version = 1,
  fields = "dept: f.string(), id: f.int32(), age: f.int32().optional()",
  row = 'k.lit("empid"), k.uint("id", 6)',
  indexes = "",
  upgrade = "",
  name = "schema",
  partition = 'k.str("dept")',
  more = "",
}): string {
  const file = join(mkdtempSync(join(folder, "m-")), `${name}.mjs`);
  writeFileSync(
    file,
    `import { entity, f, k } from "@rowhouse/patterns";
import { blobList } from "@rowhouse/patterns/blob-list";
import { listIndex } from "@rowhouse/patterns/list-index";
import { remoteIndex } from "@rowhouse/patterns/remote-index";
import { remoteList } from "@rowhouse/patterns/remote-list";
import { siblingIndex } from "@rowhouse/patterns/sibling-index";
export const Employee = entity("Employee", {
  version: ${version}, fields: { ${fields} },
  key: { partition: [${partition}], row: [${row}] }, indexes: { ${indexes} }, ${upgrade}
});
void blobList; void listIndex; void remoteIndex; void remoteList; void siblingIndex;
${more}`,
  );
  return file;
}

/** What check finds when `after` replaces `before`, whose definitions were recorded. */
async function changesOf(
  before: Parameters<typeof moduleOf>[0],
  after: Parameters<typeof moduleOf>[0],
): Promise<{ readonly ids: string[]; readonly found: boolean }> {
  const first = moduleOf(before);
  await check(first, { write: true });
  const second = moduleOf(after);
  const record = (file: string) => file.replace(/\.mjs$/, ".definitions.json");
  copyFileSync(record(first), record(second));
  return idsOf(await check(second, {}));
}

function idsOf({ json, found }: Awaited<ReturnType<typeof check>>) {
  const { findings } = json as { findings: { id: string }[] };
  return { ids: findings.map(({ id }) => id), found };
}

describe("rowhouse patterns check", () => {
  it("prints the definitions with their hashes and exits with 0 if there are no findings", async () => {
    const { code, stdout } = await run(["check", schema]);
    assert.match(stdout, /^Employee {9}entity {3}[\da-f]{12}\nEmployee\.email {3}sibling {2}/);
    assert.match(stdout, /0 errors, 0 warnings\n$/);
    assert.equal(code, 0);
  });

  it("exits with 1 and prints the issues if the library refuses a definition", async () => {
    const file = moduleOf({ row: 'k.uint("ident", 6)', fields: "dept: f.string()" });
    const { code, stdout } = await run(["check", file]);
    assert.match(stdout, /needs the field "ident", which is not declared/);
    assert.equal(code, 1);
  });

  it("exits with 2 for a missing module and for an unknown option", async () => {
    const missing = await run(["check", join(folder, "none.ts")]);
    assert.match(missing.stderr, /none\.ts does not exist/);
    assert.equal(missing.code, 2);
    assert.equal((await run(["check", "--nonsense"])).code, 2);
  });

  it("exits with 2 if two entities share a name, and accepts one exported twice", async () => {
    const again = await run(["check", moduleOf({ more: "export { Employee as default };" })]);
    assert.equal(again.code, 0);
    const more = 'export const Former = Employee.in("Formers");';
    const { code, stderr } = await run(["check", moduleOf({ more })]);
    assert.match(
      stderr,
      /exports two entities "Employee", of Employee and of Formers: export only one/,
    );
    assert.equal(code, 2);
  });

  it("ends with 2 and the name of a query that cannot be explained", async () => {
    const more = "export const queries = { none: () => undefined };";
    const { code, stderr } = await run(["check", moduleOf({ more })]);
    assert.match(stderr, /^rowhouse patterns: queries\.none cannot be explained: /);
    assert.equal(code, 2);
  });

  it("refuses a file that is not a record of definitions", async () => {
    const file = moduleOf({});
    for (const text of ["{", "null", '{"format":2}']) {
      writeFileSync(file.replace(/\.mjs$/, ".definitions.json"), text);
      await assert.rejects(
        check(file, {}),
        /schema\.definitions\.json is not a record of definitions/,
      );
    }
  });

  it("prints findings as JSON", async () => {
    const file = moduleOf({ partition: 'k.lit("all")', row: 'k.str("dept"), k.uint("id", 6)' });
    const { code, stdout } = await run(["check", file, "--json", "--strict"]);
    const { findings } = JSON.parse(stdout);
    assert.equal(findings[0].id, "constant-partition");
    assert.equal(code, 1);
  });

  it("warns of a list that grows with its value and cannot spill", async () => {
    const findings = async (spill: string) => {
      const row = '[k.lit("age"), k.uint("age", 3)]';
      const indexes = `byAge: listIndex({ row: ${row}, property: "Ids", ${spill} })`;
      return idsOf(await check(moduleOf({ indexes }), {})).ids;
    };
    assert.deepEqual(await findings(""), ["unbounded-list"]);
    assert.deepEqual(await findings('spill: "entities"'), []);
  });

  it("finds no change in equal definitions", async () => {
    const indexes =
      'byAge: siblingIndex({ row: [k.lit("age"), k.uint("age", 3), k.uint("id", 6)] })';
    assert.deepEqual(await changesOf({ indexes }, { indexes }), { ids: [], found: false });
  });

  it("finds changed keys, which stored rows do not have", async () => {
    const wider = { row: 'k.lit("empid"), k.uint("id", 8)' };
    assert.deepEqual(await changesOf({}, wider), { ids: ["key-changed"], found: true });
  });

  it("finds changed fields, which stored rows do not contain", async () => {
    const base = "dept: f.string(), id: f.int32()";
    for (const age of [
      "age: f.string().optional()",
      "age: f.int32()",
      'age: f.int32().optional().as("Age")',
    ]) {
      const { ids, found } = await changesOf({}, { fields: `${base}, ${age}` });
      assert.deepEqual([age, ids, found], [age, ["field-changed"], true]);
    }
    const added = "dept: f.string(), id: f.int32(), age: f.int32().optional(), town: f.string()";
    assert.deepEqual((await changesOf({}, { fields: added })).ids, ["field-changed"]);
    const upgraded = {
      version: 2,
      fields: added,
      upgrade: "upgrade: { 1: (old) => ({ ...old, town: '' }) },",
    };
    assert.deepEqual(await changesOf({}, upgraded), { ids: [], found: false });
  });

  it("accepts a new optional field, and warns of a removed one", async () => {
    const more =
      "dept: f.string(), id: f.int32(), age: f.int32().optional(), town: f.string().optional()";
    assert.deepEqual(await changesOf({}, { fields: more }), { ids: [], found: false });
    assert.deepEqual(await changesOf({ fields: more }, {}), { ids: ["field-gone"], found: false });
  });

  it("finds a version that was lowered", async () => {
    assert.deepEqual((await changesOf({ version: 2 }, {})).ids, ["version-lowered"]);
  });

  it("finds indexes that are new, changed or removed", async () => {
    const index = (options: string) =>
      `byAge: siblingIndex({ row: [k.lit("age"), k.uint("age", 3), k.uint("id", 6)], ${options} })`;
    const [full, keys] = [{ indexes: index("") }, { indexes: index('copy: "keys"') }];
    assert.deepEqual(await changesOf({}, full), { ids: ["index-new"], found: true });
    assert.deepEqual(await changesOf(full, keys), { ids: ["index-changed"], found: true });
    assert.deepEqual(await changesOf(full, {}), { ids: ["index-gone"], found: true });
  });

  it("records the current definitions with --write", async () => {
    const file = moduleOf({});
    await check(file, { write: true });
    writeFileSync(
      file.replace(/\.mjs$/, ".definitions.json"),
      JSON.stringify({ format: 1, entities: { Gone: {} } }),
    );
    assert.deepEqual(idsOf(await check(file, {})), { ids: ["entity-gone"], found: true });
    assert.equal((await check(file, { write: true })).found, false);
    assert.deepEqual(idsOf(await check(file, {})), { ids: [], found: false });
  });

  it("warns of partitions that receive all inserts", async () => {
    const fields = "dept: f.string(), id: f.int32(), at: f.date()";
    const file = moduleOf({
      fields,
      partition: 'k.isoDate("at", "hour")',
      row: 'k.lit("empid"), k.str("dept"), k.uint("id", 6)',
    });
    assert.deepEqual(idsOf(await check(file, {})).ids, ["time-like-partition"]);
  });

  it("warns of row keys that begin with no literal, which leave no room for an index in their table", async () => {
    const file = moduleOf({ row: 'k.uint("id", 6)' });
    assert.deepEqual(idsOf(await check(file, {})), { ids: ["no-literal"], found: false });
  });

  it("warns of an index whose queries another index can answer", async () => {
    const fields = "dept: f.string(), id: f.int32(), town: f.string(), name: f.string()";
    const index = (name: string, more: string) =>
      `${name}: siblingIndex({ row: k.ordered(k.lit("${name}"), k.str("town"), ${more}k.uint("id", 6)) })`;
    const both = `${index("byTown", "")}, ${index("byTownAndName", 'k.str("name"), ')}`;
    const { ids } = idsOf(await check(moduleOf({ fields, indexes: both }), {}));
    assert.deepEqual(ids, ["left-prefix"]);
    const other = index("byTown", "").replace('k.str("town")', 'k.strCI("town")');
    const apart = `${other}, ${index("byTownAndName", 'k.str("name"), ')}`;
    assert.deepEqual(idsOf(await check(moduleOf({ fields, indexes: apart }), {})).ids, []);
  });

  it("finds entities of one table whose keys may be equal", async () => {
    const more = `export const Department = entity("Department", {
      version: 1, table: "Employee", fields: { dept: f.string(), id: f.int32() },
      key: { partition: [k.str("dept")], row: [k.lit("empid"), k.uint("id", 9)] },
    });`;
    const found = idsOf(await check(moduleOf({ more }), {}));
    assert.deepEqual(found, { ids: ["overlapping-keys"], found: true });
    // A child's key starts with its parent's key.
    const child = more.replace('k.uint("id", 9)', 'k.uint("id", 6), k.uint("age", 2)');
    const family = child.replace("id: f.int32()", "id: f.int32(), age: f.int32()");
    assert.deepEqual(idsOf(await check(moduleOf({ more: family }), {})).ids, []);
    const open = { row: 'k.lit("empid"), k.str("dept")', partition: 'k.uint("id", 6)' };
    const { ids } = idsOf(await check(moduleOf({ ...open, more: family }), {}));
    assert.deepEqual(ids, ["overlapping-keys"]);
  });

  it("warns of indexes that no declared query uses, and of copies that lack selected fields", async () => {
    const fields = "dept: f.string(), id: f.int32(), age: f.int32()";
    const indexes = `byAge: siblingIndex({ row: [k.lit("age"), k.uint("age", 3), k.uint("id", 6)], copy: "keys" }),
      unused: siblingIndex({ row: [k.lit("un"), k.uint("age", 4), k.uint("id", 6)] })`;
    const asking = (select: string) => `export const queries = {
      old: (db) => db.open(Employee).by.byAge.range({ dept: "Sales" })${select},
      all: (db) => db.open(Employee).range({ dept: "Sales" }).where((e) => e.age.gt(3)),
    };`;
    const covered = moduleOf({ fields, indexes, more: asking('.select("age", "dept")') });
    assert.deepEqual(idsOf(await check(covered, {})).ids, ["unused-index"]);
    const lacking = moduleOf({ fields: `${fields}, town: f.string()`, indexes, more: asking("") });
    assert.deepEqual(idsOf(await check(lacking, {})).ids, ["copy-lacks-fields", "unused-index"]);
  });

  it("requires no query for unique indexes and lists, which queries cannot read", async () => {
    const fields = "dept: f.string(), id: f.int32(), name: f.string()";
    const row = '[k.lit("name"), k.str("name")]';
    const indexes = `one: siblingIndex({ row: [k.lit("one"), k.str("name")], unique: true }),
      list: listIndex({ row: ${row}, property: "Ids", spill: "entities" }),
      remote: remoteList({ table: "ByName", partition: [k.str("name")], row: ${row}, property: "Keys" }),
      blob: blobList({ container: "by-name", name: [k.str("name")] })`;
    const more = `export const queries = { all: (db) => db.open(Employee).range({ dept: "Sales" }) };`;
    assert.deepEqual(idsOf(await check(moduleOf({ fields, indexes, more }), {})).ids, []);
  });
});
