import { mkdirSync } from "node:fs";
import { ENTITY_FORMATS, type EntityFormat } from "@rowhouse/protocol/entity-files";
import type { Command } from "commander";
import { Option } from "commander";
import { exportTable } from "./move/export-table.ts";
import { collect, connect, ENDPOINT_HELP, interruptible } from "./move/options.ts";
import { readTablesToMove } from "./move/read-table.ts";
import { TransferProgress } from "./move/transfer-progress.ts";
import { notEmpty } from "./not-empty.ts";

interface ExportOptions {
  readonly from: string;
  readonly to: string;
  readonly table?: readonly string[];
  readonly where?: string;
  readonly format: EntityFormat;
}

export function addExportCommand(program: Command): void {
  program
    .command("export")
    .description("write tables to files, one for each: JSON lines (lossless) or typed CSV")
    .requiredOption("--from <endpoint>", ENDPOINT_HELP, notEmpty)
    .requiredOption("--to <folder>", "the folder for the files", notEmpty)
    .option("-t, --table <name>", "only this table; may be repeated", collect)
    .option("--where <filter>", "only the entities that a $filter selects", notEmpty)
    .addOption(
      new Option("--format <format>", "of the files").choices(ENTITY_FORMATS).default("jsonl"),
    )
    .addHelpText(
      "after",
      "\nA file that was begun when the command was stopped is continued by the same command.",
    )
    .action(async ({ from, to, table, where, format }: ExportOptions) => {
      const connection = await connect(from, interruptible());
      const say = (line: string) => process.stdout.write(`${line}\n`);
      const names = table ?? (await readTablesToMove(connection, say));
      mkdirSync(to, { recursive: true });
      for (const name of names) {
        const progress = new TransferProgress(name);
        const { path, entities } = await exportTable({
          connection,
          table: name,
          where,
          folder: to,
          format,
          progress,
        }).finally(() => progress.end());
        say(`${path}: ${entities} entities`);
      }
    });
}
