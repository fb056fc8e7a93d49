import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { ServiceError } from "@rowhouse/protocol/errors";
import { Accounts } from "../auth/accounts.ts";
import { AddressReader } from "./address.ts";

const ACCOUNTS = ["one", "one1", "two"].map((name) => ({ name, keys: [] }));

describe("An address", () => {
  const cases: [host: string, path: string, account: string, below: string, base: string][] = [
    ["h:1", "/one/t", "one", "/t", "http://h:1/one"],
    ["h:1", "/one", "one", "", "http://h:1/one"],
    ["h:1", "/one/", "one", "/", "http://h:1/one"],
    ["h:1", "/one1/t", "one1", "/t", "http://h:1/one1"],
    ["h:1", "/one-secondary/t", "one (secondary)", "/t", "http://h:1/one-secondary"],
    ["[::1]:1", "/two/t", "two", "/t", "http://[::1]:1/two"],
    ["two.table.h", "/one/t", "two", "/one/t", "http://two.table.h"],
    ["two-secondary.table.h", "/t", "two (secondary)", "/t", "http://two-secondary.table.h"],
    ["TWO.Table.h", "/t", "two", "/t", "http://TWO.Table.h"],
    ["two.queue.h", "/one/t", "one", "/t", "http://two.queue.h/one"],
    ["ten.table.h", "/one/t", "one", "/t", "http://ten.table.h/one"],
  ];

  it("names an account by path or host", () => {
    for (const each of cases) assertRead(reader(), each);
  });

  it("is parsed the same way, whatever address was parsed before", () => {
    const addresses = reader();
    for (const before of cases) {
      for (const each of cases) {
        assertRead(addresses, before);
        assertRead(addresses, each);
      }
    }
  });

  it("is read with the accounts of this moment, also right after a request to the same account", () => {
    const accounts = new Accounts(ACCOUNTS);
    const addresses = reader(accounts);
    const keys = [Buffer.from("new")];
    assert.equal(addresses.read("h", "/one/t", false).account, ACCOUNTS[0]);
    accounts.replaceWith(new Accounts([{ name: "one", keys }]));
    assert.equal(addresses.read("h", "/one/t", false).account.keys, keys);
    assert.throws(() => addresses.read("h", "/two/t", false), isRefusal("ResourceNotFound"));
    accounts.replaceWith(new Accounts(ACCOUNTS.slice(1)));
    assert.throws(() => addresses.read("h", "/one/t", false), isRefusal("ResourceNotFound"));
  });

  it("has the scheme of the connection", () => {
    const addresses = reader();
    for (const secure of [true, false, true]) {
      const { baseUrl } = addresses.read("h", "/one/t", secure);
      assert.equal(baseUrl, `${secure ? "https" : "http"}://h/one`);
    }
  });

  it("is rejected if it names no account", () => {
    const addresses = reader();
    addresses.read("h", "/one/t", false);
    for (const path of ["/", "/on", "/one2/t", "//one/t"]) {
      assert.throws(() => addresses.read("h", path, false), isRefusal("ResourceNotFound"));
    }
  });

  it("is rejected without a valid host", () => {
    const addresses = reader();
    addresses.read("h", "/one/t", false);
    for (const host of [undefined, ""]) {
      assert.throws(
        () => addresses.read(host, "/one/t", false),
        isRefusal("HostInformationNotPresent"),
      );
    }
    for (const host of ["h/", 'h"', "h:1x", "a b"]) {
      assert.throws(() => addresses.read(host, "/one/t", false), isRefusal("InvalidUri"));
    }
  });
});

function reader(accounts = new Accounts(ACCOUNTS)): AddressReader {
  return new AddressReader({
    serviceName: "table",
    hostStyle: true,
    hasSecondary: true,
    accounts,
  });
}

function assertRead(
  addresses: AddressReader,
  [host, path, account, below, base]: [string, string, string, string, string],
): void {
  const read = addresses.read(host, path, false);
  const name = read.account.name + (read.secondary ? " (secondary)" : "");
  assert.deepEqual([name, read.servicePath, read.baseUrl], [account, below, base]);
}

function isRefusal(code: string): (error: unknown) => boolean {
  return (error) => error instanceof ServiceError && error.code === code;
}
