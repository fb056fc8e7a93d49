import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { after, before, describe, it } from "node:test";
import { fileURLToPath } from "node:url";
import {
  bytesBelow,
  EmptyFolder,
  filesNaming,
  type Packed,
  packed,
  TRIES_ALL,
} from "./empty-folder.ts";

const root = fileURLToPath(new URL("../..", import.meta.url));
/** Of an installation with everything it depends on. */
const INSTALLED_BYTES_MAX = 30e6;

let packages: Packed;
before(async () => {
  packages = await packed();
});
after(() => packages.remove());

describe("The package rowhouse", () => {
  const project = new EmptyFolder();
  before(() => project.install(packages.rowhouse.tarball));
  after(() => project.remove());

  it("is installed by one tarball, without scripts, in at most 30 MB", () => {
    const bytes = bytesBelow(join(project.path, "node_modules"));
    assert.equal(bytes <= INSTALLED_BYTES_MAX, true, `${(bytes / 1e6).toFixed(1)} MB`);
  });

  it("serves a data folder to a command", async () => {
    project.write(
      "look.mjs",
      `const connection = process.env.AZURE_STORAGE_CONNECTION_STRING;
       const [, table] = /TableEndpoint=([^;]+)/.exec(connection);
       console.log(await (await fetch(new URL("/readyz", table))).text());`,
    );
    const ports = ["--tablePort", "0", "--queuePort", "0", "--blobPort", "0"];
    const { stdout } = await project.run("npx", ["rowhouse", ...ports, "--", "node", "look.mjs"]);
    assert.match(stdout, /"status":"ready","engine":"lmdb","durability":"disk"/);
  });

  it("names no path of the machine that packed it", () => {
    assert.deepEqual(filesNaming(root, join(project.path, "node_modules/rowhouse")), []);
  });

  it("prints the version of its manifest", async () => {
    const { version } = JSON.parse(readFileSync(join(root, "cli/package.json"), "utf8"));
    assert.equal(
      (await project.run("node_modules/.bin/rowhouse", ["--version"])).stdout,
      `${version}\n`,
    );
  });
});

describe("The package @rowhouse/patterns", () => {
  const project = new EmptyFolder();
  before(() => project.install(packages.patterns.tarball));
  after(() => project.remove());

  const program = `import { connect, entity, f, k } from "@rowhouse/patterns";
    import { memory } from "@rowhouse/patterns/testing";
    const Person = entity("Person", { version: 1, fields: { name: f.string() },
      key: { partition: [k.lit("p")], row: [k.str("name")] } });
    const db = connect(memory());
    await db.createTables(Person);
    await db.open(Person).insert({ name: "Ada" });
    console.log((await db.open(Person).get({ name: "Ada" })).name);`;

  it("names no path of the machine that packed it", () => {
    assert.deepEqual(filesNaming(root, join(project.path, "node_modules/@rowhouse")), []);
  });

  it("works by require where ES modules cannot be required, as in Jest on Node 20", async () => {
    const common = program
      .replace(/import (\{.*?\}) from (".*?");/g, "const $1 = require($2);")
      .replace("const db =", "(async () => { const db =");
    project.write("program.cjs", `${common} })();`);
    // Without the condition and the feature, Node is as such a test runner.
    const { stdout } = await project.run("node", [
      "--no-experimental-require-module",
      "program.cjs",
    ]);
    assert.equal(stdout, "Ada\n");
  });

  it("is installed by one tarball and works by import", async () => {
    project.write("program.mjs", program);
    assert.equal((await project.run("node", ["program.mjs"])).stdout, "Ada\n");
  });
});

if (TRIES_ALL) {
  describe("What is published", () => {
    const folder = new EmptyFolder();
    after(() => folder.remove());

    it("is clean for publint", async () => {
      const publint = ["exec", "--yes", "publint@0.3.25", "--", "run", "--strict"];
      for (const { tarball } of [packages.rowhouse, packages.patterns])
        await folder.run("npm", [...publint, tarball]);
    });

    it("has types that resolve, for Are The Types Wrong", async () => {
      const attw = ["exec", "--yes", "@arethetypeswrong/cli@0.18.5", "--"];
      await folder.run("npm", [...attw, packages.rowhouse.tarball]);
      await folder.run("npm", [...attw, "--profile", "esm-only", packages.patterns.tarball]);
    });
  });
}

/** Where people look first, and what works for them today. */
const FIRST_SCREENS = [
  "README.md",
  "cli/README.md",
  "patterns/README.md",
  "docs/manual/running.md",
];

describe("Until something is published, the first screen says how to install it", () => {
  const changes = readFileSync(join(root, "CHANGELOG.md"), "utf8");
  for (const file of FIRST_SCREENS) {
    it(file, () => {
      const screen = readFileSync(join(root, file), "utf8").split("\n").slice(0, 30).join("\n");
      const isPublished = !changes.includes("(not yet released)");
      assert.equal(screen.includes("npm run release -- --dry-run"), !isPublished);
    });
  }
});
