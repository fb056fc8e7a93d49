import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import {
  isScratch,
  newScratchPrefix,
  scratchTables,
} from "../../explorer/src/playground/scratch-tables.ts";
import { errorIn, type WireRequest } from "../../explorer/src/session.ts";
import { testTablesPort } from "../../patterns/src/ports/tables-conformance.ts";
import { type ExplorerServer, NAME, OWNER, startExplorer } from "./explorer-server.ts";

let server: ExplorerServer;
let token: string;
before(async () => {
  server = await startExplorer();
  ({ token } = await server.logIn(OWNER));
});
after(() => server.close());

/** As the page's own, in Node. */
async function wire({ method = "GET", path, query = {}, headers, body }: WireRequest) {
  const search = new URLSearchParams();
  for (const [name, value] of Object.entries(query)) if (value) search.set(name, value);
  const target = `${server.url}/_rowhouse/api/v1/wire/${NAME}${path}?${search}`;
  const answer = await fetch(target, {
    method,
    headers: {
      Accept: "application/json;odata=minimalmetadata",
      ...{ ...headers, Authorization: `Bearer ${token}`, Origin: server.url },
    },
    ...(body !== undefined && { body }),
  });
  if (!answer.ok) throw errorIn(answer.status, await answer.text());
  return answer;
}

function open(prefix = newScratchPrefix()) {
  return scratchTables({ prefix, base: `${server.url}/${NAME}`, wire, aheadMs: () => 0 });
}

testTablesPort({ name: "The playground's door to the server", open: () => open() });

describe("The scratch tables of the playground", () => {
  it("are apart from all other tables, whatever these are called", async () => {
    const [mine, other] = [open(), open()];
    await server.wire(token, "POST", `${NAME}/Tables`, { body: { TableName: "Employee" } });
    for (const port of [mine, other]) assert.equal(await port.createTable("Employee"), true);
    assert.equal(await mine.deleteTable("Employee"), true);
    assert.deepEqual(await mine.listTables({}), { names: [] });
    assert.deepEqual(await other.listTables({}), { names: ["Employee"] });
    const all = await server.wire(token, "GET", `${NAME}/Tables('Employee')`);
    assert.equal(all.status, 200);
  });

  it("are told by their names from tables that only sound like them", () => {
    assert.equal(isScratch(`${newScratchPrefix()}Employee`), true);
    for (const name of ["playground", "playgroundScratch", "playgroundScratchEmployee", "Scratch"])
      assert.equal(isScratch(name), false, name);
  });
});
