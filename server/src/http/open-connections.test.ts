import assert from "node:assert/strict";
import { beforeEach, describe, it } from "node:test";
import { type OpenConnection, OpenConnections } from "./open-connections.ts";

describe("OpenConnections", () => {
  let now: number;
  let closed: string[];
  let reports: unknown[];
  let open: OpenConnections;
  beforeEach(() => {
    now = 0;
    closed = [];
    reports = [];
    open = new OpenConnections({
      max: 3,
      now: () => now,
      onReport: (counts) => reports.push(counts),
    });
  });

  interface Test extends OpenConnection {
    idleSince: number | undefined;
  }
  function add(name: string, idleSince: number | undefined): Test {
    const connection = { idleSince, destroy: () => closed.push(name) };
    open.add(connection);
    return connection;
  }

  it("closes the one that has been idle for the longest time", () => {
    add("older", 1);
    add("oldest", 0);
    add("busy", undefined);
    add("new", 2);
    assert.deepEqual(closed, ["oldest"]);
    add("newer", 3);
    assert.deepEqual(closed, ["oldest", "older"]);
  });

  it("closes no connection that has been used since it looked", () => {
    const first = add("first", 0);
    const second = add("second", 1);
    add("third", 2);
    add("fourth", 3);
    assert.deepEqual(closed, ["first"]);
    first.idleSince = 4;
    second.idleSince = 5;
    add("fifth", 6);
    assert.deepEqual(closed, ["first", "third"]);
    second.idleSince = undefined;
    add("sixth", 7);
    assert.deepEqual(closed, ["first", "third", "fourth"]);
  });

  it("closes the new one where none is idle, and looks again after a while", () => {
    const busy = ["a", "b", "c"].map((name) => add(name, undefined));
    add("refused", 0);
    assert.deepEqual(closed, ["refused"]);
    busy[1]!.idleSince = 0;
    add("refused too", 0);
    now = 100;
    add("taken", 100);
    assert.deepEqual(closed, ["refused", "refused too", "b"]);
    assert.deepEqual(open.counts, { closedIdle: 1, refused: 2 });
  });

  it("has room again where one has gone", () => {
    const gone = add("gone", 0);
    add("b", 0);
    add("c", 0);
    open.delete(gone);
    add("d", 0);
    assert.deepEqual(closed, []);
  });

  it("reports at once, and then once a minute", () => {
    for (let i = 0; i < 6; i++) add(`${i}`, i);
    assert.deepEqual(reports, [{ max: 3, closedIdle: 1, refused: 0 }]);
    now = 60_000;
    add("later", now);
    assert.deepEqual(reports.at(-1), { max: 3, closedIdle: 3, refused: 0 });
    assert.equal(reports.length, 2);
  });
});
