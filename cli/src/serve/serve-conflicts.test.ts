import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { Command } from "commander";
import { checkOptions } from "./serve-conflicts.ts";
import { type ServeOptions, serveOptions } from "./serve-options.ts";

function check(...args: readonly string[]): void {
  const command = new Command();
  for (const option of serveOptions()) command.addOption(option);
  command.parse(args, { from: "user" });
  const isGiven = (name: keyof ServeOptions) => command.getOptionValueSource(name) === "cli";
  checkOptions(command.opts<ServeOptions>(), isGiven, false);
}

const MEMORY = "--inMemoryPersistence";
const DATABASE = "--engine=postgres://localhost/d";

describe("The flags of serve", () => {
  for (const { what, args, reason } of [
    {
      what: "memory and a database",
      args: [MEMORY, DATABASE],
      reason:
        /^--inMemoryPersistence and --engine \(or ROWHOUSE_ENGINE\) name different places for the data: use/,
    },
    {
      what: "a folder and a database",
      args: ["--location=rowhouse-data", DATABASE],
      reason:
        /^--location and --engine \(or ROWHOUSE_ENGINE\) name different places for the data: use only one of them\.$/,
    },
    {
      what: "a folder and memory",
      args: ["--location=data", MEMORY],
      reason:
        /^--inMemoryPersistence and --location name different places for the data: use only one of them\.$/,
    },
    ...[
      "--allowUnsafeEngine",
      "--no-preparedStatements",
      "--engineConnections=2",
      "--readStandby=postgres://localhost/d",
    ].map((flag) => ({
      what: `${flag} without a database`,
      args: [flag],
      reason: /^(--\S+) needs a database: add --engine, or leave \1 out\.$/,
    })),
    {
      what: "a scan report without a scan budget",
      args: ["--scan-report=report.json"],
      reason: /^--scan-report needs --scan-budget: add it, or leave --scan-report out\.$/,
    },
    {
      what: "a token without a page that needs it",
      args: ["--metrics", "--insight-token=t"],
      reason:
        /^--insight-token protects the pages of --insight, --scan-budget and --targets: add one/,
    },
    ...[
      ...["--insight", "--metrics", "--scan-budget=no scan", "--record=r"],
      ...["--targets=azure", "--enforce-targets"],
    ].map((flag) => ({
      what: `${flag} without the table service`,
      args: ["--blobOnly", flag],
      reason:
        /^--\S+ needs the table service, which --blobOnly excludes: add --tableOnly, or leave/,
    })),
    {
      what: "memory for several processes",
      args: [MEMORY, "--workers=2"],
      reason:
        /^--workers needs a data folder to share, and --inMemoryPersistence has none: use only/,
    },
    ...["--key=k.pem", "--pwd=secret"].map((flag) => ({
      what: `${flag} without a certificate`,
      args: [flag],
      reason: /^(--key|--pwd) needs --cert: add it, or leave \1 out\.$/,
    })),
    {
      what: "a certificate without its key",
      args: ["--cert=c.pem"],
      reason: /^--cert needs another flag: add --key for PEM files, or --pwd for a PFX archive\.$/,
    },
  ]) {
    it(`are refused if they request ${what}`, () => {
      assert.throws(() => check(...args), { message: reason });
    });
  }

  it("are accepted if each one has an effect", () => {
    check("--location=data", "--insight", "--insight-token=t", "--tableOnly", "--blobPort=1");
    check(DATABASE, "--no-preparedStatements", "--engineConnections=2", "--workers=2");
    check(MEMORY, "--scan-budget=no scan", "--scan-report=r", "--metrics", "--record=r");
    check("--queueOnly", "--tableOnly", "--targets=azure", "--insight-token=t");
    check("--cert=c.pem", "--key=k.pem", "--pwd=p", "--enforce-targets", "--workers=2");
    check("--insight", "--scan-budget=no scan", "--targets=azure", "--record=r", "--workers=2");
  });
});
