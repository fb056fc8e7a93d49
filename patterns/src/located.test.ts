import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { connect, type Database, entity, f, k } from "./index.ts";
import { located } from "./located.ts";
import { remoteIndex } from "./remote-index.ts";
import { memory } from "./testing/memory.ts";

const Customer = entity("Customer", {
  version: 1,
  fields: { id: f.int32(), name: f.string() },
  key: { partition: [k.uint("id", 6)], row: [k.lit("customer")] },
});
const ByTown = entity("CustomersByTown", {
  version: 1,
  fields: { town: f.string(), id: f.int32(), account: f.string() },
  key: { partition: [k.str("town")], row: [k.uint("id", 6)] },
});

async function open() {
  const [home, east, west] = [connect(memory()), connect(memory()), connect(memory())];
  for (const database of [home, east, west]) await database.createTables(Customer, ByTown);
  const accounts: Record<string, Database> = { east, west };
  const asked: string[] = [];
  const Customers = located(Customer, ({ account }: { id: number; account: string }) => {
    asked.push(account);
    return accounts[account];
  });
  return { home, accounts, asked, customers: home.open(Customers) };
}

describe("a located entity", () => {
  it("is read in the account that its look-up row names, or in the opened one if that is unknown", async () => {
    const { home, accounts, asked, customers } = await open();
    const places = ["west", "east", "nowhere", "west"];
    for (const [id, account] of places.entries()) {
      await home.open(ByTown).insert({ town: "Redmond", id, account });
      await (accounts[account] ?? home).open(Customer).insert({ id, name: account });
    }
    const entries = await home.open(ByTown).range({ town: "Redmond" }).all();
    const found = await customers.getMany(entries);
    assert.deepEqual(
      found.map((customer) => [customer?.id, customer?.name]),
      [...places.entries()],
    );
    assert.deepEqual(asked, places);
    assert.equal(await customers.get({ id: 0, account: "east" }), undefined);
  });

  it("is written in the account that its look-up row names", async () => {
    const { home, accounts, customers } = await open();
    const entry = { id: 7, account: "west" };
    await customers.at(entry).insert({ id: 7, name: "Ann" });
    await customers.at(entry).update(entry, () => ({ name: "Eve" }));
    assert.equal((await accounts.west!.open(Customer).get(entry))?.name, "Eve");
    assert.equal(await home.open(Customer).get(entry), undefined);
  });

  it("is found by the account that the entries of an index copy", async () => {
    const Account = entity("Account", {
      version: 1,
      fields: { id: f.int32(), town: f.string(), account: f.string() },
      key: { partition: [k.uint("id", 6)], row: [k.lit("account")] },
      indexes: {
        town: remoteIndex({
          table: "AccountByTown",
          partition: [k.str("town")],
          row: [k.uint("id", 6)],
          copy: ["account"],
          mode: "inline",
        }),
      },
    });
    const { home, accounts, customers } = await open();
    await home.createTables(Account);
    await home.open(Account).insert({ id: 3, town: "Redmond", account: "east" });
    await accounts.east!.open(Customer).insert({ id: 3, name: "Lee" });
    const { requests, result } = await home.metered((metered) =>
      metered
        .open(Account)
        .by.town.range({ town: "Redmond" }, { consistency: "eventual" })
        .select("id", "account")
        .all(),
    );
    assert.equal(requests, 1);
    assert.deepEqual(
      (await customers.getMany(result)).map((customer) => customer?.name),
      ["Lee"],
    );
  });
});
