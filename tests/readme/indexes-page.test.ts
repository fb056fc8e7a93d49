import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { it } from "node:test";
import { TableClient } from "@azure/data-tables";
import { RowhouseCommand } from "../support/rowhouse-command.ts";
import { startRowhouse, withFolder } from "../support/rowhouse-process.ts";
import { runExample } from "./run-example.ts";

const PAGE = "docs/manual/indexes.md";

it("The manual's page of indexes declares one that the example on it uses, as printed", () =>
  withFolder(async (folder) => {
    const server = await startRowhouse(folder);
    try {
      const { connectionString, tableUrl } = server;
      const options = { allowInsecureConnection: true };
      const text = readFileSync(new URL(`../../${PAGE}`, import.meta.url), "utf8");
      const [, printed = ""] = /^ {4}rowhouse (index create .*?)$(?!\n {6})/ms.exec(text) ?? [];
      const words = printed.replaceAll("\\\n", " ").trim().split(/\s+/);
      const run = (...args: string[]) =>
        outputOf(args.map((word) => word.replace("http://127.0.0.1:10002", tableUrl)));
      const early = new RowhouseCommand([...words.slice(0, -1), `${tableUrl}/devstoreaccount1`]);
      assert.equal(await early.exited, 2);
      assert.match(early.stderr, /There is no table named Employees; create it first\./);
      await TableClient.fromConnectionString(connectionString, "Employees", options).createTable();
      assert.match(await run(...words), /^EmployeesByLastName {2}of Employees, .*: ready$/m);
      const { printed: output, promised } = await runExample(PAGE, { TABLES: connectionString });
      assert.equal(output, promised);
      assert.notEqual(output, "");

      const against = ["--against", words.at(-1)!];
      const explained = await run(
        ...["explain", "LastName eq 'Jones'", "--table", "Employees"],
        ...against,
      );
      assert.match(explained, /^its plan {2}index collect EmployeesByLastName/m);
      assert.match(explained, /^ +entities-read +2$/m);
      assert.match(explained, /^ +index-entries-read +2$/m);
      assert.doesNotMatch(explained, /rowhouse index create/, "an index answers the query already");
      const verified = await run("index", "verify", "EmployeesByLastName", ...against);
      assert.match(verified, /3 entities and 3 entries compared; 0 missing/);
      assert.match(
        await run("index", "detach", "EmployeesByLastName", ...against),
        /remoteIndex\(\{\n {2}table: "EmployeesByLastName"/,
      );
      const refused = new RowhouseCommand([
        "index",
        "show",
        "Nothing",
        "--against",
        `${tableUrl}/devstoreaccount1`,
      ]);
      assert.equal(await refused.exited, 2);
      assert.match(refused.stderr, /There is no index named Nothing/);
    } finally {
      assert.equal(await server.stop(), 0);
    }
  }));

async function outputOf(args: readonly string[]): Promise<string> {
  const command = new RowhouseCommand(args);
  const code = await command.exited;
  assert.equal(code, 0, `${args.join(" ")}: ${command.stderr}`);
  return command.stdout;
}
