import assert from "node:assert/strict";
import { it } from "node:test";
import { Accounts, DEVELOPMENT_ACCOUNT } from "@rowhouse/server/auth/accounts";
import { HeaderList, WholeBody } from "@rowhouse/server/http/raw-request";
import { startServer } from "@rowhouse/server/server";
import { openTestEngine } from "../support/test-engine.ts";
import { KEY } from "./storage-wire.ts";
import { sendChangeset } from "./table-batch.ts";
import { TableWire } from "./table-wire.ts";

const { name } = DEVELOPMENT_ACCOUNT;
const PAGES = 3000;

it("Pages that are requested all at once leave turns of the event loop to others", async () => {
  const server = await startServer({
    accounts: new Accounts([DEVELOPMENT_ACCOUNT]),
    engine: await openTestEngine(),
    listen: { table: { host: "127.0.0.1", port: 0 } },
  });
  const wire = new TableWire({ url: `${server.urls.table}/${name}`, account: name, key: KEY });
  try {
    await wire.send("POST", "/Tables", { body: { TableName: "Pages" } });
    const inserts = Array.from({ length: 100 }, (_, i) => ({
      method: "POST",
      path: "/Pages",
      body: { PartitionKey: "p", RowKey: String(i), Text: "x".repeat(100) },
    }));
    await sendChangeset(wire, inserts);

    const handle = server.handles.get("table")!;
    const request = rawRequest(wire.bytes("GET", "/Pages()"));
    const answers = Array.from({ length: PAGES }, () => handle(request));
    // The others wait for their turn.
    const made = answers.filter((answer) => !(answer instanceof Promise)).length;
    assert.ok(made < PAGES / 2, `${made} pages in one turn`);
    for (const { status } of await Promise.all(answers)) assert.equal(status, 200);
  } finally {
    wire.close();
    await server.close();
  }
});

/** A request as a lane passes it on. */
function rawRequest(bytes: Buffer) {
  const [line = "", ...headers] = bytes.toString("latin1").split("\r\n");
  const [verb = "", target = ""] = line.split(" ");
  return {
    verb,
    target,
    headers: new HeaderList(
      headers.filter((each) => each !== "").flatMap((each) => each.split(": ")),
    ),
    secure: false,
    remoteAddress: "127.0.0.1",
    opensConnection: false,
    peer: { account: "" },
    body: new WholeBody(Buffer.alloc(0)),
  };
}
