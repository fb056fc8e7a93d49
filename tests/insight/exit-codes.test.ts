import assert from "node:assert/strict";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, it } from "node:test";
import { RowhouseCommand } from "../support/rowhouse-command.ts";
import { withFolder } from "../support/rowhouse-process.ts";
import { withServer } from "./watched-server.ts";

interface CommandLine {
  readonly what: string;
  readonly args: readonly string[];
  readonly environment?: Readonly<Record<string, string>>;
  readonly reason: RegExp;
}

const COMMAND_LINES: readonly CommandLine[] = [
  { what: "an unknown flag", args: ["serve", "--tabel"], reason: /unknown option '--tabel'/ },
  {
    what: "a command that is none",
    args: ["reprot"],
    reason: /no command 'reprot'; there are .*report/,
  },
  { what: "a missing argument", args: ["explain", "-t", "T"], reason: /missing required argument/ },
  { what: "an unknown command below another", args: ["engine", "x"], reason: /unknown command/ },
  {
    what: "a fault rule of an operation that there is not",
    args: ["serve", "--inMemoryPersistence", "--faults", "503 on InsertEntiy"],
    reason: /cannot start: "InsertEntiy" in a fault rule is not an operation/,
  },
  {
    what: "a report that is not there, without the help of a command line that was right",
    args: ["report", "none.json"],
    reason: /does not exist; the server writes it at shutdown\.\n$/,
  },
  {
    what: "a folder without a name, which is not the current one",
    args: ["serve", "--location", ""],
    reason: /'-l, --location <folder>' argument '' is invalid\. It is empty\./,
  },
  {
    what: "a host without a name, which is not every one",
    args: ["serve", "--tableHost="],
    reason: /'--tableHost <host>' argument '' is invalid\. It is empty\./,
  },
  {
    what: "a backup to nowhere",
    args: ["backup", ""],
    reason:
      /'' is invalid for argument 'target'\. The name is empty; name a folder that does not exist yet\./,
  },
  {
    what: "no command behind --",
    args: ["serve", "--inMemoryPersistence", "--", ""],
    reason: /there is no command after --/,
  },
  {
    what: "memory beside a database that the environment names",
    args: ["serve", "--inMemoryPersistence"],
    environment: { ROWHOUSE_ENGINE: "postgres://somebody@localhost/of-somebody" },
    reason: /cannot start: --inMemoryPersistence and --engine, or ROWHOUSE_ENGINE, name different/,
  },
  {
    what: "a folder beside a database",
    args: ["serve", "--location", "data", "--engine", "postgres://localhost/d"],
    reason:
      /cannot start: --location and --engine, or ROWHOUSE_ENGINE, name different places for the data: leave/,
  },
  {
    what: "a configuration that is not there",
    args: ["serve", "--config", "none.json"],
    reason: /cannot start: Cannot read the --config file: ENOENT.*none\.json/,
  },
  {
    what: "a configuration that is not JSON",
    args: ["serve", "--config", "README.md"],
    reason: /cannot start: README\.md is not JSON\.\n$/,
  },
  {
    what: "a certificate that is none",
    args: ["serve", "--inMemoryPersistence", "--cert", "README.md", "--key", "README.md"],
    reason: /cannot start: --cert and --key cannot be used: .*PEM/,
  },
  {
    what: "a database that nobody named",
    args: ["engine", "check"],
    environment: { ROWHOUSE_ENGINE: "" },
    reason: /^rowhouse: Name the database: .* or set ROWHOUSE_ENGINE\.$/m,
  },
  {
    what: "definitions that are nowhere",
    args: ["patterns", "check"],
    reason: /Name the module that exports the definitions; there is no schema\.ts, .* here\.$/m,
  },
  {
    what: "a folder in the place of a budget's rules",
    args: ["serve", "--inMemoryPersistence", "--scan-budget", "docs"],
    reason: /cannot start: Cannot read docs: EISDIR/,
  },
  {
    what: "a file of rules that is not there",
    args: ["serve", "--inMemoryPersistence", "--faults", "rules.txt"],
    reason: /cannot start: "rules\.txt" .* There is no file of that name either\.\n$/,
  },
  {
    what: "a log that is a folder",
    args: ["serve", "--inMemoryPersistence", "--debug", "docs"],
    reason: /cannot start: Cannot write the --debug log: EISDIR.* 'docs'/,
  },
  {
    what: "a log below a file",
    args: ["serve", "--inMemoryPersistence", "--debug", "README.md/log"],
    reason: /cannot start: Cannot write the --debug log: E(EXIST|NOTDIR)/,
  },
  {
    what: "a report that is a folder",
    args: ["report", "docs"],
    reason: /^rowhouse: Cannot read docs: EISDIR/,
  },
  {
    what: "a recording that is a folder",
    args: ["advise", "docs"],
    reason: /^rowhouse: docs is a folder; name the recording file\.\n$/,
  },
  {
    what: "an endpoint that is no URL, without repeating what may hold a signature",
    args: ["explain", "", "-t", "Tab", "--against", "localhost:10002/a?sig=secret"],
    reason:
      /^rowhouse: --against is not a URL such as http:\/\/127\.0\.0\.1:10002\/devstoreaccount1\.\n$/,
  },
  {
    what: "definitions that are no module",
    args: ["patterns", "check", "docs"],
    reason: /^rowhouse patterns: docs cannot be imported: /,
  },
  {
    what: "an insight token that is empty",
    args: ["serve", "--insight", "--insight-token="],
    reason: /It is empty; leave it out to get a new one/,
  },
];

describe("Exit codes of the rowhouse command", () => {
  for (const { what, args, environment, reason } of COMMAND_LINES) {
    it(`are 2 for ${what}`, async () => {
      const command = new RowhouseCommand(args, environment);
      assert.equal(await command.exited, 2);
      assert.match(command.stderr, reason);
    });
  }

  if (process.platform === "linux") {
    it("are 2 for a log where there can be no folder", async () => {
      const command = new RowhouseCommand([
        "serve",
        "--inMemoryPersistence",
        ...["--debug", "/proc/none/log"],
      ]);
      assert.equal(await command.exited, 2);
      assert.match(command.stderr, /Cannot write .*: No folder can be created in \/proc\.\n$/);
    });
  }

  it("are 2 for a recording that is empty, as that of a server that was killed", () =>
    withFolder(async (folder) => {
      const file = join(folder, "traffic.jsonl");
      writeFileSync(file, "");
      const command = new RowhouseCommand(["advise", file]);
      assert.equal(await command.exited, 2);
      assert.match(
        command.stderr,
        /traffic\.jsonl is empty\. .* it was killed before that, or is still/,
      );
    }));

  it("are 0 for help that was asked for", async () => {
    assert.equal(await new RowhouseCommand(["report", "--help"]).exited, 0);
  });

  it("are 2 for explain when the server refuses the query, behind what was found out without it", () =>
    withServer({}, async ({ accountUrl }) => {
      const args = ["explain", "Age eq 1", "--table", "Nothing", "--against", accountUrl];
      const command = new RowhouseCommand(args);
      assert.equal(await command.exited, 2);
      assert.match(command.stdout, /^plan {6}table scan where Age eq 1$/m);
      assert.match(
        command.stderr,
        /^rowhouse: http:\S+ answered 404: The table specified does not exist\.$/m,
      );
    }));
});
