/**
 * Runs every wire test over PostgreSQL, or those named; the full test run includes only some of them:
 *
 *   npm run wire:postgres -- [table-entities …]
 */
import { overPostgres, runEach, wireTest, wireTests } from "./wire-tests.ts";

const named = process.argv.slice(2);
const files = named.length > 0 ? named.map(wireTest) : wireTests();
process.exitCode = (await overPostgres((settings) => runEach(files, settings))) ? 0 : 1;
