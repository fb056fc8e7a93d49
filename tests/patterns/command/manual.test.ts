import assert from "node:assert/strict";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, it } from "node:test";
import { fileURLToPath, pathToFileURL } from "node:url";
import { sendMessage } from "@rowhouse/patterns/queue-worker";
import { type CommandAccount, compiled, withAccount } from "./account.ts";
import type { Employee as Definition } from "./schema.ts";

const page = readFileSync(
  fileURLToPath(new URL("../../../docs/manual/patterns/command-line.md", import.meta.url)),
  "utf8",
);

/** What the page assumes: three employees, one of them without her index entry, and a poison message. */
async function prepare({ database, pass }: CommandAccount, schema: string): Promise<void> {
  const { Employee } = (await import(pathToFileURL(schema).href)) as {
    Employee: typeof Definition;
  };
  await database.createTables(Employee);
  for (const queue of ["index-repairs", "work", "work-poison"]) {
    await database.queues?.createQueue(queue);
  }
  const employees = database.open(Employee);
  for (const [i, town] of ["Redmond", "Redmond", "Bellevue"].entries()) {
    await employees.insert({ dept: "Sales", id: i + 1, email: `e${i}@contoso.com`, town });
  }
  await database.tables.commit("EmployeeByTown", [
    { kind: "delete", partitionKey: "Redmond", rowKey: "Sales_000002", ifMatch: "*" },
  ]);
  await sendMessage(database, "work-poison", {
    id: "m1",
    kind: "greet",
    key: "Sales|223",
    body: 1,
  });
  pass(120_000);
}

describe("the manual's page on the command line", () => {
  it("shows what the commands print", () =>
    withAccount(async (account) => {
      const folder = mkdtempSync(fileURLToPath(new URL(".manual-", import.meta.url)));
      try {
        const schema = join(folder, "schema.mjs");
        writeFileSync(schema, compiled(/^```ts\n(.*?)^```$/ms.exec(page)?.[1] ?? ""));
        await prepare(account, schema);
        const sessions = Array.from(
          page.matchAll(/^```console\n(.*?)^```$/gms),
          ([, text]) => text!,
        );
        for (const [, command, shown] of sessions
          .join("")
          .matchAll(/^\$ rowhouse patterns (.*)\n((?:(?!\$ ).*\n)*)/gm)) {
          const args = command!.split(" ").map((each) => (each === "schema.ts" ? schema : each));
          const { stdout, stderr } = await account.run(...args);
          assert.match(`${stdout}`, patternOf(shown!), `${command}: ${stderr}`);
        }
      } finally {
        rmSync(folder, { recursive: true });
      }
    }));
});

/** `…` stands for any text; the width of column gaps is ignored. */
function patternOf(shown: string): RegExp {
  const literal = shown.replace(/[.*+?^${}()|[\]\\]/g, "\\$&");
  return new RegExp(`^${literal.replace(/ {2,}/g, " +").replace(/…/g, "[^]*?")}$`);
}
