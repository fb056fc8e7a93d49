/*
 * Writes a sample folder of the current storage format or, if its name ends in `-blobs`, one with blobs. Run
 * once for each released format:
 *
 *     node --conditions=rowhouse-source --import tsx tests/upgrade/write-sample.ts tests/upgrade/format-1
 */
import { rmSync } from "node:fs";
import { join } from "node:path";
import { startRowhouse } from "../support/rowhouse-process.ts";
import { writeBlobSample } from "./blob-sample.ts";
import { writeSample } from "./sample.ts";

const folder = process.argv[2];
if (folder === undefined) throw new Error("Name the folder to write.");
const server = await startRowhouse(folder, ["--silent"]);
await (folder.endsWith("-blobs") ? writeBlobSample : writeSample)(server.connectionString);
await server.stop();
rmSync(join(folder, "lock.mdb"), { force: true });
