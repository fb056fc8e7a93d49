import { after, before } from "node:test";
import { testEngineConformance } from "../conformance.ts";

import { openPostgresEngine } from "./postgres-engine.ts";
import { runAt, type TestServer, testServer } from "./test-server.ts";

let server: TestServer;
/** One database for all; each test begins with an empty table. */
let url: string;

before(async () => {
  server = await testServer();
  url = await server.createDatabase();
});
after(async () => {
  await server.dropDatabase(url);
  await server.stop();
});

testEngineConformance({
  name: "PostgresEngine",
  async open({ clock }) {
    await runAt(url, ["DROP TABLE IF EXISTS rh_kv"]);
    return openPostgresEngine({ url, clock });
  },
  reopen: async (_closed, { clock }) => openPostgresEngine({ url, clock }),
});
