import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { EngineError } from "../engine.ts";
import { isTransient, toEngineError } from "./outcome.ts";
import { type Fault, faultOf, readFields, ServerError } from "./sql-state.ts";

/** Every row of the table, by the fault that the request sees. */
const EXPECTED: Readonly<Record<Fault, string>> = {
  retry: "40001 40P01",
  check: "23505 22012",
  forget: "26000 42P05 0A000",
  busy: "55P03 57014 53300 53200 53000 53400",
  unavailable: "53100 57P03 58030 58P01 58P02",
  unknown:
    "40003 57P01 57P02 57P05 25P03 25P04 XX000 08000 08001 08003 08004 08006 08007 08P01 57P99 58ABC XX999",
  standby: "25006",
  keyTooLong: "54000",
  corrupt: "XX001 XX002",
  config: "3D000 3F000 42P01 42703 42501 28000 28P01 55000 23514 23502 23503",
  bug: "22P03 22P02 22003 42P02 42804 42883 42601 21000 99999",
};

describe("faultOf", () => {
  for (const [fault, states] of Object.entries(EXPECTED)) {
    it(`is "${fault}" for ${states}`, () => {
      for (const state of states.split(" ")) assert.equal(faultOf(state), fault, state);
    });
  }
});

describe("An error of a cluster's node", () => {
  const isOfWorkerAway = (state: string, text: string) =>
    new ServerError(
      new Map([
        ["C", state],
        [
          "M",
          `connection to the remote node postgres@worker2:5432 failed with the following error: ${text}`,
        ],
      ]),
    ).isOfWorkerAway;

  it("proves that a worker was asked for nothing only if it was never connected", () => {
    const refused = 'connection to server at "worker2", port 5432 failed: Connection refused';
    assert.equal(isOfWorkerAway("08006", refused), true);
    assert.equal(isOfWorkerAway("08006", "FATAL:  the database system is starting up"), true);
    assert.equal(isOfWorkerAway("08006", "server closed the connection unexpectedly"), false);
    assert.equal(isOfWorkerAway("XX000", refused), false);
  });
});

describe("toEngineError", () => {
  const codeOf = (sqlState: string) => {
    const error = toEngineError(serverError(sqlState));
    return error instanceof EngineError ? error.code : "none";
  };

  it("maps faults to the codes that services can act on", () => {
    assert.equal(codeOf("55P03"), "Unavailable");
    assert.equal(codeOf("53100"), "Unavailable");
    assert.equal(codeOf("42501"), "Unavailable");
    assert.equal(codeOf("XX001"), "Corrupt");
    assert.equal(codeOf("54000"), "KeyTooLong");
  });

  it("does not map a bug to an EngineError", () => {
    assert.equal(codeOf("42601"), "none");
  });

  it("keeps the cause and names the SQLSTATE", () => {
    const cause = serverError("55P03");
    const error = toEngineError(cause);
    assert.equal(error.cause, cause);
    assert.match(error.message, /busy.*SQLSTATE 55P03/);
  });

  it("is Unavailable for a server that cannot be reached", () => {
    const error = toEngineError(new Error("connect ECONNREFUSED"));
    assert.ok(error instanceof EngineError && error.code === "Unavailable");
  });
});

describe("isTransient", () => {
  it("is true for a server that is starting, full or gone, and false when only an operator can help", () => {
    for (const state of ["57P03", "53300", "57P01", "25006", "40001"]) {
      assert.equal(isTransient(serverError(state)), true, state);
    }
    for (const state of ["28P01", "3D000", "XX001", "42601"]) {
      assert.equal(isTransient(serverError(state)), false, state);
    }
    assert.equal(isTransient(new Error("ECONNRESET")), true);
  });
});

describe("readFields", () => {
  it("reads the fields of a message up to its end", () => {
    const bytes = Buffer.from("xxSFATAL\0VFATAL\0C57P01\0Mgoing down\0\0Mnot this\0");
    const fields = readFields(bytes, 2, bytes.length);
    assert.deepEqual(Object.fromEntries(fields), {
      S: "FATAL",
      V: "FATAL",
      C: "57P01",
      M: "going down",
    });
    const error = new ServerError(fields);
    assert.equal(error.sqlState, "57P01");
    assert.equal(error.isFatal, true);
  });

  it("returns no field of a truncated message", () => {
    assert.deepEqual([...readFields(Buffer.from("C57P01"), 0, 6)], []);
  });
});

function serverError(sqlState: string): ServerError {
  return new ServerError(
    new Map([
      ["C", sqlState],
      ["M", "message"],
    ]),
  );
}
