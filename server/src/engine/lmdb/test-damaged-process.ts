/**
 * Reads damaged copies of a data file, for the tests: one line of JSON for each, a list of what was wrong with its
 * answers. Damage may also end the process, in the native layer; the test then starts another for the rest.
 */
import { readSamples } from "./test-damaged-samples.ts";

const [, , ...folders] = process.argv;
for (const folder of folders)
  process.stdout.write(`${JSON.stringify(await readSamples(folder))}\n`);
