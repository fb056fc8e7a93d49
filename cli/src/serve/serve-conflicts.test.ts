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

describe("Flags of serve", () => {
  for (const { what, args, reason } of [
    {
      what: "memory beside a database",
      args: [MEMORY, DATABASE],
      reason:
        /^--inMemoryPersistence and --engine, or ROWHOUSE_ENGINE, say different places: leave/,
    },
    {
      what: "a folder beside a database",
      args: ["--location=rowhouse-data", DATABASE],
      reason:
        /^--location and --engine, or ROWHOUSE_ENGINE, say different places: leave one out\.$/,
    },
    {
      what: "a folder beside memory",
      args: ["--location=data", MEMORY],
      reason: /^--inMemoryPersistence and --location say different places: leave one out\.$/,
    },
    ...["--allowUnsafeEngine", "--no-preparedStatements", "--engineConnections=2"].map((flag) => ({
      what: `${flag} without a database`,
      args: [flag],
      reason: /^--\S+ is about a database: name that by --engine, or leave it out\.$/,
    })),
    {
      what: "a report of no scan budget",
      args: ["--scan-report=report.json"],
      reason: /^--scan-report is of a --scan-budget: give that, too, or leave it out\.$/,
    },
    {
      what: "a token that no page asks for",
      args: ["--metrics", "--insight-token=t"],
      reason:
        /^--insight-token is for the pages of --insight, --scan-budget and --targets: give one/,
    },
    ...[
      ...["--insight", "--metrics", "--scan-budget=no scan", "--record=r"],
      ...["--targets=azure", "--enforce-targets"],
    ].map((flag) => ({
      what: `${flag} where tables are left out`,
      args: ["--blobOnly", flag],
      reason:
        /^--\S+ needs the table service, which --blobOnly leaves out: add --tableOnly, or leave/,
    })),
    {
      what: "memory that processes would share",
      args: [MEMORY, "--workers=2"],
      reason: /^--workers shares a data folder, and --inMemoryPersistence has none\.$/,
    },
    {
      what: "a recording of several processes",
      args: ["--record=traffic.jsonl", "--workers=2"],
      reason: /^What is watched is watched in one process: leave --workers out\.$/,
    },
  ]) {
    it(`are refused where they ask for ${what}`, () => {
      assert.throws(() => check(...args), { message: reason });
    });
  }

  it("are taken where each has its part", () => {
    check("--location=data", "--insight", "--insight-token=t", "--tableOnly", "--blobPort=1");
    check(DATABASE, "--no-preparedStatements", "--engineConnections=2", "--workers=2");
    check(MEMORY, "--scan-budget=no scan", "--scan-report=r", "--metrics", "--record=r");
    check("--queueOnly", "--tableOnly", "--targets=azure", "--insight-token=t");
  });
});
