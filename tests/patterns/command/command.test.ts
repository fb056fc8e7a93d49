import assert from "node:assert/strict";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import { dirname, join } from "node:path";
import { after, before, describe, it } from "node:test";
import { fileURLToPath } from "node:url";
import type { Database } from "@rowhouse/patterns";
import { sendMessage } from "@rowhouse/patterns/queue-worker";
import { definitionHash } from "../../../patterns/src/model/declared-index.ts";
import { compiled, run, withAccount } from "./account.ts";
import { Employee } from "./schema.ts";

/**
 * The whole command, as a process against a server. Each test takes seconds, so `index-work.test.ts` covers the
 * rest.
 */

const here = fileURLToPath(new URL(".", import.meta.url));
let schema: string;
before(() => {
  // In the repository, so that it finds the library.
  schema = join(mkdtempSync(join(here, ".command-")), "schema.mjs");
  writeFileSync(schema, compiled(readFileSync(join(here, "schema.ts"), "utf8")));
});
after(() => rmSync(dirname(schema), { recursive: true }));

async function fill(database: Database): Promise<void> {
  await database.createTables(Employee);
  await database.queues?.createQueue("index-repairs");
  const employees = database.open(Employee);
  for (const id of [1, 2, 3]) {
    const hiredAt = new Date(0);
    const town = id === 3 ? "Bellevue" : "Redmond";
    await employees.insert({ dept: "Sales", id, email: `e${id}@contoso.com`, town, hiredAt });
  }
}

describe("rowhouse patterns, as a process", () => {
  it("verifies, repairs and verifies again, with exit codes for CI", () =>
    withAccount(async ({ database, pass, run }) => {
      await fill(database);
      const entry = { partitionKey: "Redmond", rowKey: "Sales_000002", ifMatch: "*" };
      await database.tables.commit("EmployeeByTown", [{ kind: "delete", ...entry }]);
      pass(120_000);
      const verified = await run("index", "verify", "Employee", "--schema", schema);
      assert.match(verified.stdout, /^Employee\.byTown: 3 entities and 2 entries; 1 missing, /m);
      assert.match(
        verified.stdout,
        /missing: Sales \| empid_000002, entry Redmond \| Sales_000002/,
      );
      assert.match(verified.stderr, /^verify Employee\.byTown$/m);
      assert.equal(verified.code, 1);
      const repair = await run("index", "repair", "Employee.byTown", "--schema", schema);
      const told = "repair Employee.byTown: 3 entities and 0 entries read, 1 problem found";
      // A slow run prints the number of requests every other second.
      const said = repair.stderr.replace(/^\d+ requests\n/gm, "");
      assert.deepEqual([repair.code, said], [0, `repair Employee.byTown\n${told}\n`]);
      pass(120_000);
      const again = await run("index", "verify", "Employee.byTown", "--schema", schema, "--json");
      const [report] = JSON.parse(again.stdout);
      assert.deepEqual([again.code, report.entries, report.missing], [0, 3, 0]);
    }));

  it("refuses to build an unregistered index without --register, and estimates the work with --dry-run", () =>
    withAccount(async ({ database, run }) => {
      await fill(database);
      const build = ["index", "build", "Employee.byTown", "--schema", schema];
      const refused = await run(...build);
      assert.match(
        refused.stderr,
        /^rowhouse patterns: Employee\.byTown is not registered: use --register, which hides it from readers until it is built\.$/m,
      );
      assert.equal(refused.code, 2);
      const dry = await run(...build, "--register", "--dry-run", "--rate", "1", "--json");
      const expected = {
        index: "Employee.byTown",
        state: "disabled",
        entities: 3,
        requests: 12,
        seconds: 58,
      };
      assert.deepEqual([dry.code, JSON.parse(dry.stdout)], [0, expected]);
    }));

  it("continues a build that was interrupted, and shows its progress", () =>
    withAccount(async ({ database, run }) => {
      await fill(database);
      await database.tables.createTable("rhcontrol");
      const control = {
        state: "writeonly",
        build: { done: 0, written: 0, errors: 0, duplicates: [] },
      };
      const text = (value: string) => ({ type: "String", value }) as const;
      await database.tables.commit("rhcontrol", [
        {
          kind: "insert",
          partitionKey: "index",
          rowKey: `Employee.Employee.byTown@${definitionHash(Employee, "byTown")}`,
          properties: { state: text("writeonly"), control: text(JSON.stringify(control)) },
        },
      ]);
      const built = await run("index", "build", "Employee.byTown", "--schema", schema);
      assert.equal(built.stdout, "Employee.byTown is readable: 3 entities.\n");
      assert.match(
        built.stderr,
        /was writeonly; 3 entities, about 1 s\n(\d+ requests\n)*3 of 3 entities, /,
      );
      assert.equal(built.code, 0);
    }));

  it("lists, shows and redrives poison messages", () =>
    withAccount(async ({ database, run }) => {
      await database.queues?.createQueue("work");
      await database.queues?.createQueue("work-poison");
      assert.equal((await run("queue", "poison", "list", "work")).code, 0);
      await sendMessage(database, "work-poison", {
        id: "m1",
        kind: "greet",
        key: "k",
        body: { n: 1 },
      });
      const listed = await run("queue", "poison", "list", "work");
      assert.match(listed.stdout, /^m1 {2}greet {2}k {2}\d{4}-/);
      assert.equal(listed.code, 1);
      const show = (...id: string[]) => run("queue", "poison", "show", "work", ...id, "--json");
      const [shown, all, missing] = [await show("m1"), await show(), await show("m2")];
      assert.deepEqual(JSON.parse(shown.stdout)[0].body, { n: 1 });
      assert.equal(all.stdout, shown.stdout);
      assert.deepEqual([shown.code, all.code, missing.code], [0, 1, 2]);
      const redriven = await run("queue", "poison", "redrive", "work");
      assert.deepEqual([redriven.stdout, redriven.code], ["1 message sent back to work\n", 0]);
      assert.equal((await database.queues?.peek("work", 1))?.length, 1);
    }));

  it("explains the declared queries and, with a connection, the sizes of partitions", () =>
    withAccount(async ({ database, run: runConnected }) => {
      await fill(database);
      const explain = ["explain", schema, "--fail-on", "partition-scan"];
      const { stdout, code } = await runConnected(...explain);
      assert.match(stdout, /^ {2}byEmail {5}range .*served from copies$/m);
      assert.match(stdout, /^ {2}Employee in Employee: one partition for each dept$/m);
      assert.match(stdout, /^ {4}100 % of 6 rows in Sales$/m);
      assert.match(stdout, /^ {2}redmond {5}partition-scan/m);
      assert.equal(code, 1);
      const offline = await run(explain);
      assert.equal(offline.stdout, stdout.replace(/^ {4}\d+ % of .*\n/gm, ""));
      assert.equal(offline.code, 1);
    }));

  it("refuses an invalid connection string without repeating it, and ignores an empty one", async () => {
    const explain = (connection: string) =>
      run(["explain", schema], { AZURE_STORAGE_CONNECTION_STRING: connection });
    for (const connection of ["secret", "AccountName=a;AccountKey=secret"]) {
      const { code, stderr } = await explain(connection);
      assert.match(
        stderr,
        /^rowhouse patterns: --connection .* is not a connection string with a table/,
      );
      assert.doesNotMatch(stderr, /secret/);
      assert.equal(code, 2);
    }
    assert.equal((await explain("")).code, 0);
  });

  it("prints a single JSON value with --json", () =>
    withAccount(async ({ database, run }) => {
      await fill(database);
      await database.queues?.createQueue("work-poison");
      const index = "Employee.byTown";
      const commands: [args: string[], code: number, expected: unknown][] = [
        [["index", "status", index], 0, [{ index, state: "readable", registered: false }]],
        [["queue", "poison", "list", "work"], 0, []],
        [["queue", "poison", "redrive", "work"], 0, { queue: "work", redriven: 0 }],
        [["queue", "poison", "list", "none"], 2, undefined],
      ];
      for (const [args, code, expected] of commands) {
        const ofSchema = args[0] === "index" ? ["--schema", schema] : [];
        const ran = await run(...args, ...ofSchema, "--json");
        const printed = ran.stdout === "" ? undefined : JSON.parse(ran.stdout);
        assert.deepEqual([ran.code, printed], [code, expected], `${args}: ${ran.stderr}`);
      }
    }));

  it("exits with 130 immediately if it is interrupted while it waits", () =>
    withAccount(async ({ database, start }) => {
      await fill(database);
      const build = start("index", "build", "Employee.byTown", "--register", "--schema", schema);
      await build.until(/about 56 s$/m, "stderr");
      build.signal("SIGINT");
      assert.equal(await build.exited, 130);
      // A client that is throttled would retry for most of a minute.
      let asked = () => {};
      const isAsked = new Promise<void>((resolve) => {
        asked = resolve;
      });
      const busy = createServer((_request, response) => {
        response.writeHead(503, { "x-ms-error-code": "ServerBusy" }).end();
        asked();
      });
      await new Promise<void>((resolve) => busy.listen(0, "127.0.0.1", resolve));
      const address = busy.address();
      const port = typeof address === "object" ? address?.port : 0;
      const connection = `DefaultEndpointsProtocol=http;AccountName=a;AccountKey=a2V5;TableEndpoint=http://127.0.0.1:${port}/a;QueueEndpoint=http://127.0.0.1:${port}/a`;
      const list = start("queue", "poison", "list", "work", "--connection", connection);
      await Promise.race([isAsked, list.exited]);
      list.signal("SIGINT");
      assert.deepEqual([await list.exited, list.stdout], [130, ""]);
      busy.closeAllConnections();
      busy.close();
    }));

  it("advises from the stored data", () =>
    withAccount(async ({ database, run }) => {
      await fill(database);
      const advise = ["advise", "Employee.town", "--schema", schema];
      const { stdout, code } = await run(...advise, "--reads", "0");
      assert.match(stdout, /^Employee\.town: drop\n {2}no query uses it\n/);
      assert.match(stdout, /commonest {2}66\.7 %: "Redmond"/);
      assert.equal(code, 1);
    }));
});
