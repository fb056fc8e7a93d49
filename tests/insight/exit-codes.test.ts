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

/** Nothing listens at the port of the discard service. */
const NOT_RUNNING =
  /Nothing serves at http:\/\/127\.0\.0\.1:9 \(.*ECONNREFUSED.*\)\. Start a server there \(rowhouse serve\)/;

const COMMAND_LINES: readonly CommandLine[] = [
  { what: "an unknown flag", args: ["serve", "--tabel"], reason: /unknown option '--tabel'/ },
  {
    what: "an unknown command",
    args: ["reprot"],
    reason: /unknown command 'reprot'; the commands are .*report/,
  },
  {
    what: "help for a command that is none",
    args: ["help", "reprot"],
    reason: /unknown command 'reprot'/,
  },
  { what: "a missing argument", args: ["explain", "-t", "T"], reason: /missing required argument/ },
  { what: "an unknown command below another", args: ["engine", "x"], reason: /unknown command/ },
  {
    what: "a fault rule with an unknown operation",
    args: ["serve", "--inMemoryPersistence", "--faults", "503 on InsertEntiy"],
    reason: /cannot start: "InsertEntiy" in a fault rule is not an operation/,
  },
  {
    what: "a missing report, without usage help",
    args: ["report", "none.json"],
    reason: /does not exist; serve --scan-budget writes it at shutdown\.\n$/,
  },
  {
    what: "an empty folder name, which does not mean the current folder",
    args: ["serve", "--location", ""],
    reason: /'-l, --location <folder>' argument '' is invalid\. It must not be empty\./,
  },
  {
    what: "an empty host name, which does not mean every address",
    args: ["serve", "--tableHost="],
    reason: /'--tableHost <host>' argument '' is invalid\. It must not be empty\./,
  },
  {
    what: "a backup without a target",
    args: ["backup", ""],
    reason:
      /'' is invalid for argument 'target'\. It must not be empty; name a folder that does not exist yet\./,
  },
  {
    what: "no command after --",
    args: ["serve", "--inMemoryPersistence", "--", ""],
    reason: /there is no command after --/,
  },
  {
    what: "--inMemoryPersistence together with a database from the environment",
    args: ["serve", "--inMemoryPersistence"],
    environment: { ROWHOUSE_ENGINE: "postgres://somebody@localhost/of-somebody" },
    reason:
      /cannot start: --inMemoryPersistence and --engine \(or ROWHOUSE_ENGINE\) name different/,
  },
  {
    what: "--location together with a database",
    args: ["serve", "--location", "data", "--engine", "postgres://localhost/d"],
    reason:
      /cannot start: --location and --engine \(or ROWHOUSE_ENGINE\) name different places for the data: use/,
  },
  {
    what: "a missing configuration file",
    args: ["serve", "--config", "none.json"],
    reason: /cannot start: Cannot read the --config file: ENOENT.*none\.json/,
  },
  {
    what: "a configuration that is not JSON",
    args: ["serve", "--config", "README.md"],
    reason: /cannot start: README\.md is not JSON\.\n$/,
  },
  {
    what: "an invalid certificate",
    args: ["serve", "--inMemoryPersistence", "--cert", "README.md", "--key", "README.md"],
    reason: /cannot start: Cannot use --cert and --key: .*PEM/,
  },
  {
    what: "a missing file to import",
    args: ["import", "none.jsonl", "--to", "UseDevelopmentStorage=true"],
    reason: /^rowhouse: There is no file or folder none\.jsonl\.$/m,
  },
  {
    what: "a missing database URL",
    args: ["engine", "check"],
    environment: { ROWHOUSE_ENGINE: "" },
    reason: /^rowhouse: No database is named: .* or set ROWHOUSE_ENGINE\.$/m,
  },
  {
    what: "missing definitions",
    args: ["patterns", "check"],
    reason: /There is no schema\.ts, .* here: name the module that exports the definitions\.$/m,
  },
  {
    what: "a folder in place of the scan budget's rules",
    args: ["serve", "--inMemoryPersistence", "--scan-budget", "docs"],
    reason: /cannot start: Cannot read docs: EISDIR/,
  },
  {
    what: "a missing file of fault rules",
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
    what: "a missing recording of which indexes are to be suggested",
    args: ["index", "suggest", "none.jsonl"],
    reason: /^rowhouse: none\.jsonl does not exist; serve --record creates it\.\n$/,
  },
  {
    what: "a recording that is a folder, before a server is asked",
    args: [
      ...["index", "dry-run", "-t", "T", "-k", "A", "--record", "docs"],
      ...["--against", "http://127.0.0.1:9/devstoreaccount1"],
    ],
    reason: /^rowhouse: docs is a folder; name the recording file\.\n$/,
  },
  {
    what: "a server that is not there to declare an index",
    args: [
      ...["index", "create", "ByA", "-t", "T", "-k", "A"],
      ...["--against", "http://127.0.0.1:9/devstoreaccount1"],
    ],
    reason: NOT_RUNNING,
  },
  {
    what: "a rate of building that is no number",
    args: ["index", "create", "ByA", "-t", "T", "-k", "A", "--rate", "0.5", "--against", "x"],
    reason: /argument '0\.5' is invalid\. It must be a whole number of entities, from 1 on\./,
  },
  {
    what: "two rates of building",
    args: [
      "index",
      "create",
      "ByA",
      "-t",
      "T",
      "-k",
      "A",
      "--fast",
      "--rate",
      "5",
      "--against",
      "x",
    ],
    reason: /'--rate <entities>' cannot be used with option '--fast'/,
  },
  {
    what: "a recording that is a folder",
    args: ["advise", "docs"],
    reason: /^rowhouse: docs is a folder; name the recording file\.\n$/,
  },
  {
    what: "an endpoint that is not a URL, without printing the signature in it",
    args: ["explain", "", "-t", "Tab", "--against", "localhost:10002/a?sig=secret"],
    reason: /^rowhouse: This is no connection string .*, and no URL that begins with http\.\n$/,
  },
  {
    what: "a server that is not running, for explain",
    args: ["explain", "", "-t", "Tab", "--against", "http://127.0.0.1:9/devstoreaccount1"],
    reason: NOT_RUNNING,
  },
  {
    what: "a server that is not running, for the commands of patterns, without trying for a minute",
    args: ["patterns", "index", "status", "Employee"].concat([
      ...["--schema", "tests/patterns/command/schema.ts"],
      ...[
        "--connection",
        "DefaultEndpointsProtocol=http;AccountName=a;AccountKey=a2V5;TableEndpoint=http://127.0.0.1:9/a",
      ],
    ]),
    reason: NOT_RUNNING,
  },
  {
    what: "definitions that are not a module",
    args: ["patterns", "check", "docs"],
    reason: /^rowhouse patterns: docs cannot be imported: /,
  },
  {
    what: "an empty insight token",
    args: ["serve", "--insight", "--insight-token="],
    reason: /It must not be empty; leave it out to get a new one/,
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
    it("are 2 for a log where no folder can be created", async () => {
      const command = new RowhouseCommand([
        "serve",
        "--inMemoryPersistence",
        ...["--debug", "/proc/none/log"],
      ]);
      assert.equal(await command.exited, 2);
      assert.match(command.stderr, /Cannot write .*: No folder can be created in \/proc\.\n$/);
    });
  }

  it("are 2 for an empty recording, as a killed server leaves it", () =>
    withFolder(async (folder) => {
      const file = join(folder, "traffic.jsonl");
      writeFileSync(file, "");
      const command = new RowhouseCommand(["advise", file]);
      assert.equal(await command.exited, 2);
      assert.match(
        command.stderr,
        /traffic\.jsonl is empty: .* Shut it down and try again; if it was killed, record again/,
      );
    }));

  it("are 0 for requested help", async () => {
    assert.equal(await new RowhouseCommand(["report", "--help"]).exited, 0);
  });

  it("are 0 for the general help, which lists every command by the name that runs it", async () => {
    const help = new RowhouseCommand(["--help"]);
    const unknown = new RowhouseCommand(["reprot"]);
    assert.equal(await help.exited, 0);
    await unknown.exited;
    const listed = [...help.stdout.matchAll(/^ {2}([a-z-]+) ?(?:\[|<| {2})/gm)].map(
      ([, name]) => name,
    );
    const [, runnable = ""] = /the commands are (.+)$/m.exec(unknown.stderr)!;
    assert.deepEqual(listed, runnable.split(", "));
  });

  it("are 2 for explain if the server refuses the query, after printing the plan", () =>
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
