import {
  closeSync,
  existsSync,
  fsyncSync,
  ftruncateSync,
  openSync,
  renameSync,
  rmSync,
  writeSync,
} from "node:fs";
import { join } from "node:path";
import { type EntityFormat, writeCsv } from "@rowhouse/protocol/entity-files";
import { Checkpoint } from "./checkpoint.ts";
import { recordsOf } from "./import-file.ts";
import { withoutEtag } from "./raw-entity.ts";
import { type Continuation, readPages } from "./read-table.ts";
import type { TableConnection } from "./table-endpoint.ts";
import type { TransferProgress } from "./transfer-progress.ts";

export interface ExportOptions {
  readonly connection: TableConnection;
  readonly table: string;
  readonly where: string | undefined;
  readonly folder: string;
  readonly format: EntityFormat;
  readonly progress: TransferProgress;
}

/** How far a file has come: what is behind `bytes` may be torn. */
interface ExportState {
  bytes: number;
  entities: number;
  next: Continuation | undefined;
}

/**
 * Writes a table to `TABLE.jsonl` or `TABLE.csv`. Until it is whole, the file is `….part`, beside a state from which
 * the same export goes on. Columns of CSV are known only at the end, so the entities are kept as lines until then.
 * @throws Error if the file exists
 */
export async function exportTable(
  options: ExportOptions,
): Promise<{ readonly path: string; readonly entities: number }> {
  const { connection, table, where, folder, format } = options;
  const path = join(folder, `${table}.${format}`);
  if (existsSync(path)) throw new Error(`${path} exists; name another folder, or remove the file.`);
  const lines = join(folder, `${table}.jsonl.part`);
  const only = where === undefined ? "" : ` where ${where}`;
  const checkpoint = new Checkpoint<ExportState>(
    `${lines}.state`,
    `export of ${connection.endpoint.url}/${table}${only}`,
  );
  const entities = await writeLines(options, lines, checkpoint);
  if (format === "jsonl") renameSync(lines, path);
  else {
    await writeCsvFile(lines, `${path}.part`);
    renameSync(`${path}.part`, path);
    rmSync(lines);
  }
  checkpoint.remove();
  return { path, entities };
}

async function writeLines(
  { connection, table, where, progress }: ExportOptions,
  path: string,
  checkpoint: Checkpoint<ExportState>,
): Promise<number> {
  const before = checkpoint.read();
  const state: ExportState = before ?? { bytes: 0, entities: 0, next: undefined };
  const file = openSync(path, before === undefined ? "w" : "r+", 0o600);
  try {
    ftruncateSync(file, state.bytes);
    for await (const { entities, next } of readPages(connection, {
      table,
      filter: where,
      from: state.next,
    })) {
      const text = Buffer.concat(entities.flatMap((entity) => [withoutEtag(entity), LINE_FEED]));
      for (let at = 0; at < text.length; ) {
        at += writeSync(file, text, at, text.length - at, state.bytes + at);
      }
      state.bytes += text.length;
      state.entities += entities.length;
      state.next = next;
      progress.add(entities.length);
      if (next !== undefined) {
        fsyncSync(file);
        checkpoint.write(state);
      }
    }
    fsyncSync(file);
  } finally {
    closeSync(file);
  }
  return state.entities;
}

async function writeCsvFile(lines: string, path: string): Promise<void> {
  const file = openSync(path, "w", 0o600);
  try {
    await writeCsv(
      () => recordsOf(lines, "jsonl"),
      (text) => writeSync(file, text),
    );
    fsyncSync(file);
  } finally {
    closeSync(file);
  }
}

const LINE_FEED = Buffer.from("\n");
