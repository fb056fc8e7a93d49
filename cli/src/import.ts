import { readdirSync, statSync } from "node:fs";
import { basename, extname, join } from "node:path";
import {
  ENTITY_FORMATS,
  type EntityFormat,
  type KeyColumns,
} from "@rowhouse/protocol/entity-files";
import { WRITE_MODES, type WriteMode } from "@rowhouse/protocol/entity-writes";
import { type Command, Option } from "commander";
import { addImportAzuriteCommand } from "./import-azurite.ts";
import { Checkpoint } from "./move/checkpoint.ts";
import { Pace } from "./move/copy-table.ts";
import { type ImportStates, importFile } from "./move/import-file.ts";
import {
  addTransferOptions,
  connect,
  ENDPOINT_HELP,
  interruptible,
  type TransferOptions,
} from "./move/options.ts";
import { Rejects } from "./move/rejects.ts";
import { TransferProgress } from "./move/transfer-progress.ts";
import { notEmpty } from "./not-empty.ts";

interface ImportOptions extends TransferOptions {
  readonly to?: string;
  readonly table?: string;
  readonly mode: WriteMode;
  readonly partitionKey?: string;
  readonly rowKey?: string;
  readonly rejects?: string;
}

export function addImportCommand(program: Command): void {
  const command = program
    .command("import")
    .description("write the entities of files into tables: JSON lines or typed CSV")
    .argument(
      "<files...>",
      "files, or folders of files; TABLE.jsonl and TABLE.csv name their table",
    )
    // Not a required option: commander would then require it of `import azurite`, too.
    .option("--to <endpoint>", `required: ${ENDPOINT_HELP}`, notEmpty)
    .option("-t, --table <name>", "the table; default: as the file is named", notEmpty)
    .addOption(
      new Option(
        "--mode <mode>",
        "what happens to an entity that exists: insert refuses the new one",
      )
        .choices(WRITE_MODES)
        .default("replace"),
    )
    .option(
      "--partition-key <column>",
      "the column, or property, that becomes the PartitionKey in files without one",
      notEmpty,
    )
    .option("--row-key <column>", "the one that becomes the RowKey", notEmpty);
  addTransferOptions(command)
    .option("--rejects <file>", "append what was refused, with its line, as JSON lines", notEmpty)
    .action(async (paths: readonly string[], options: ImportOptions) => {
      process.exitCode = (await importFiles(paths, options)) ? 0 : 1;
    });
  addImportAzuriteCommand(command);
}

/** Returns whether every entity was taken. */
async function importFiles(paths: readonly string[], options: ImportOptions): Promise<boolean> {
  const files = paths.flatMap(filesOf);
  if (files.length === 0)
    throw new Error(`There is no .jsonl or .csv file in ${paths.join(", ")}.`);
  if (options.to === undefined) throw new Error("Name the destination with --to <endpoint>.");
  const connection = await connect(options.to, interruptible());
  const { dryRun = false, mode, partitionKey, rowKey } = options;
  const keys: KeyColumns = {
    ...(partitionKey && { PartitionKey: partitionKey }),
    ...(rowKey && { RowKey: rowKey }),
  };
  const given = Object.entries(keys).map(([key, column]) => `, ${key} from ${column}`);
  const checkpoint = new Checkpoint<ImportStates>(
    dryRun ? undefined : options.state,
    `import (${mode}${given.join("")}) of ${files.join(", ")} into ${connection.endpoint.url}`,
  );
  const state = checkpoint.read() ?? {};
  const say = (line: string) => process.stdout.write(`${line}\n`);
  const rejects = new Rejects(options.rejects, say);
  const pace = new Pace(options.rate ?? Number.POSITIVE_INFINITY);
  for (const path of files) {
    const table = options.table ?? basename(path, extname(path));
    const progress = new TransferProgress(path);
    const written = await importFile(
      {
        path,
        format: formatOf(path)!,
        connection,
        table,
        mode,
        keys,
        dryRun,
        pace,
        progress,
        onReject: (reject) => rejects.add(reject),
      },
      state,
      checkpoint,
    ).finally(() => progress.end());
    say(`${path}: ${written} entities ${dryRun ? "would be written" : "written"} to ${table}`);
  }
  rejects.close();
  checkpoint.remove();
  return rejects.count === 0;
}

function filesOf(path: string): string[] {
  const found = statSync(path, { throwIfNoEntry: false });
  if (found === undefined) throw new Error(`There is no file or folder ${path}.`);
  if (!found.isDirectory()) {
    if (formatOf(path) !== undefined) return [path];
    throw new Error(`${path} is neither .jsonl nor .csv.`);
  }
  const names = readdirSync(path).filter((name) => formatOf(name) !== undefined);
  return names.sort().map((name) => join(path, name));
}

function formatOf(path: string): EntityFormat | undefined {
  return ENTITY_FORMATS.find((format) => extname(path).toLowerCase() === `.${format}`);
}
