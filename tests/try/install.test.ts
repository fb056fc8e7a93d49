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

const PROGRAM = `import { connect, entity, f, k } from "@rowhouse/patterns";
  import { memory } from "@rowhouse/patterns/testing";
  const Person = entity("Person", { version: 1, fields: { name: f.string() },
    key: { partition: [k.lit("p")], row: [k.str("name")] } });
  async function findAda() {
    const db = connect(memory());
    await db.createTables(Person);
    await db.open(Person).insert({ name: "Ada" });
    return (await db.open(Person).get({ name: "Ada" })).name;
  }
  findAda().then((name) => console.log(name));`;
const COMMON_PROGRAM = common(PROGRAM);

/** The same program without ES modules. */
function common(program: string): string {
  return program.replace(/import (\{.*?\}) from (".*?");/g, "const $1 = require($2);");
}

describe("The package @rowhouse/patterns", () => {
  const project = new EmptyFolder();
  before(() => project.install(packages.patterns.tarball));
  after(() => project.remove());

  it("names no path of the machine that packed it", () => {
    assert.deepEqual(filesNaming(root, join(project.path, "node_modules/@rowhouse")), []);
  });

  it("works by require where ES modules cannot be required, as in Jest on Node 20", async () => {
    project.write("program.cjs", COMMON_PROGRAM);
    // Without the condition and the feature, Node is as such a test runner.
    const { stdout } = await project.run("node", [
      "--no-experimental-require-module",
      "program.cjs",
    ]);
    assert.equal(stdout, "Ada\n");
  });

  it("is installed by one tarball and works by import", async () => {
    project.write("program.mjs", PROGRAM);
    assert.equal((await project.run("node", ["program.mjs"])).stdout, "Ada\n");
  });
});

if (TRIES_ALL) {
  describe("The package @rowhouse/patterns, by import and by require,", () => {
    const { devDependencies } = JSON.parse(readFileSync(join(root, "package.json"), "utf8"));
    const esbuild = `esbuild@${devDependencies.esbuild}`;
    const project = new EmptyFolder();
    before(async () => {
      const tools = ["jest@30.5.2", "vitest@3.2.4", "webpack@5.113.0", esbuild];
      await project.install(packages.patterns.tarball, ...tools);
      project.write("program.mjs", PROGRAM);
      project.write("program.cjs", COMMON_PROGRAM);
    });
    after(() => project.remove());

    /** A test file, for runners whose `test` is global or comes from a module. */
    const testFile = (first: string) =>
      `${first}${PROGRAM.replace(/findAda\(\)\.then.*/, "")}
      test("finds Ada", async () => { if ((await findAda()) !== "Ada") throw new Error("No Ada."); });`;

    it("works in node:test", async () => {
      const file = testFile('import { test } from "node:test"; ');
      project.write("node.test.mjs", file);
      project.write("node.test.cjs", common(file));
      const { stdout } = await project.run("node", ["--test", "node.test.mjs", "node.test.cjs"]);
      assert.match(stdout, /^# pass 2$|ℹ pass 2$/m);
    });

    it("works in Vitest", async () => {
      const file = testFile('import { test } from "vitest"; ');
      project.write("vitest.spec.mjs", file);
      const own = 'import { createRequire } from "node:module"; import { test } from "vitest"; ';
      const required = common(testFile("")).replace(
        /^/,
        "const require = createRequire(import.meta.url); ",
      );
      project.write("required.spec.mjs", own + required);
      await project.run("npx", ["vitest", "run", "vitest.spec.mjs", "required.spec.mjs"]);
    });

    it("works in Jest", async () => {
      project.write("jest.test.js", common(testFile("")));
      project.write("jest-import.test.mjs", testFile(""));
      const jest = ["node_modules/jest/bin/jest.js", "--testMatch"];
      await project.run("node", [...jest, "**/jest.test.js"]);
      const modules = ["--experimental-vm-modules", ...jest, "**/jest-import.test.mjs"];
      await project.run("node", [...modules, "--moduleFileExtensions", "js", "mjs"]);
    });

    for (const entry of ["program.mjs", "program.cjs"]) {
      it(`works in a bundle of esbuild from ${entry}`, async () => {
        const out = `esbuild-${entry}.cjs`;
        const flags = ["--bundle", "--platform=node", "--format=cjs", `--outfile=${out}`];
        await project.run("npx", ["esbuild", entry, ...flags]);
        assert.equal((await project.run("node", [out])).stdout, "Ada\n");
      });

      it(`works in a bundle of webpack from ${entry}`, async () => {
        const out = `webpack-${entry}.cjs`;
        project.write(
          "build.cjs",
          `const output = { path: __dirname, filename: ${JSON.stringify(out)} };
           const options = { entry: "./${entry}", mode: "production", target: "node", output };
           require("webpack")(options, (error, stats) => {
             if (error || stats.hasErrors()) throw error ?? new Error(stats.toString());
           });`,
        );
        await project.run("node", ["build.cjs"]);
        assert.equal((await project.run("node", [out])).stdout, "Ada\n");
      });
    }
  });

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
      for (const { tarball } of [packages.rowhouse, packages.patterns])
        await folder.run("npm", [...attw, tarball]);
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
