import { after, before } from "node:test";
import { AzureNamedKeyCredential, TableServiceClient } from "@azure/data-tables";
import { azureTables } from "@rowhouse/patterns/azure-tables";
import { testTablesPort } from "@rowhouse/patterns/ports/tables-conformance";
import { parseAccounts } from "@rowhouse/server/auth/account-settings";
import { MemoryEngine } from "@rowhouse/server/engine/memory-engine";
import { type RunningServer, startServer } from "@rowhouse/server/server";

const KEY =
  "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw==";
let server: RunningServer;

before(async () => {
  server = await startServer({
    accounts: parseAccounts(undefined),
    engine: new MemoryEngine(),
    listen: { table: { host: "127.0.0.1", port: 0 } },
  });
});

after(() => server.close());

testTablesPort({
  name: "The official client against Rowhouse",
  open: () => {
    const credential = new AzureNamedKeyCredential("devstoreaccount1", KEY);
    const url = `${server.urls.table}/devstoreaccount1`;
    const client = new TableServiceClient(url, credential, { allowInsecureConnection: true });
    return azureTables(client, { profile: "rowhouse" });
  },
});
