/**
 * The engine's suite, the histories of indexes, two front ends, and the wire tests whose servers store everything in the engine, over a
 * real Citus cluster; or the given files:
 *
 *   npm run test:cluster
 *   npm run test:cluster -- tests/postgres/indexes.test.ts
 */
import { fileURLToPath } from "node:url";
import { LocalCluster, NO_CLUSTER } from "@rowhouse/server/engine/postgres/test-cluster";
import { runEach, wireTests } from "./wire-tests.ts";

const conformance = fileURLToPath(
  new URL("../../server/src/engine/postgres/test-cluster-conformance.ts", import.meta.url),
);

if (NO_CLUSTER !== undefined) {
  console.error(NO_CLUSTER);
  process.exit(2);
}
const ownTests = ["indexes.test.ts", "front-ends.test.ts"].map((name) =>
  fileURLToPath(new URL(name, import.meta.url)),
);
const files = process.argv.slice(2);
const given = process.env.CITUS_URL;
const cluster =
  given === undefined ? await LocalCluster.start({ settings: { fsync: "off" } }) : undefined;
const url = given ?? cluster!.coordinator.url();
const tests = files.length > 0 ? files : [conformance, ...ownTests, ...wireTests()];
const settings = { CITUS_URL: url, POSTGRES_URL: url, TEST_ENGINE: "postgres", ON_CLUSTER: "1" };
const areAllPassed = await runEach(tests, settings);
await cluster?.remove();
process.exitCode = areAllPassed ? 0 : 1;
