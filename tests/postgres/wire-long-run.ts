/**
 * Runs every wire test over PostgreSQL, or those named; the full test run includes only some of them:
 *
 *   npm run wire:postgres -- [table-entities …]
 */
import { runOverPostgres, wireTest, wireTests } from "./wire-tests.ts";

const named = process.argv.slice(2);
const files = named.length > 0 ? named.map(wireTest) : wireTests();
const { code, output } = await runOverPostgres(files);
process.stdout.write(output);
process.exitCode = code ?? 1;
