import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { ServiceError } from "@rowhouse/protocol/errors";
import {
  actOnLease,
  checkLeaseForRead,
  checkLeaseForWrite,
  type Lease,
  type LeaseAction,
  leaseAfterWrite,
  leaseHeaders,
  leaseState,
  secondsUntilBroken,
} from "./lease.ts";
import { printLease } from "./print-lease.ts";

const NOW = 1_000_000_000;
const SECOND = 1000;
const [A, B, C] = ["a", "b", "c"] as const;

/** One lease in each state, all with id A. */
const LEASES = {
  available: undefined,
  leased: { id: A, seconds: 30, endsAt: NOW + 20 * SECOND },
  infinite: { id: A, seconds: -1 },
  breaking: { id: A, seconds: -1, brokenAt: NOW + 20 * SECOND },
  broken: { id: A, seconds: -1, brokenAt: NOW },
  expired: { id: A, seconds: 30, endsAt: NOW },
} as const satisfies Record<string, Lease | undefined>;

type State = keyof typeof LEASES;
const STATES: readonly State[] = ["available", "leased", "breaking", "broken", "expired"];

const MISMATCH = "LeaseIdMismatchWithLeaseOperation";
const ABSENT = "LeaseNotPresentWithLeaseOperation";
const PRESENT = "LeaseAlreadyPresent";

/** The outcome for each state, in the order of STATES: a state and id, or a refusal. */
const ACTIONS: readonly [string, LeaseAction, readonly string[]][] = [
  [
    "acquire with the same id",
    { action: "acquire", seconds: 15, proposedId: A },
    ["leased a", "leased a", "LeaseIsBreakingAndCannotBeAcquired", "leased a", "leased a"],
  ],
  [
    "acquire with another id",
    { action: "acquire", seconds: 15, proposedId: B },
    ["leased b", PRESENT, PRESENT, "leased b", "leased b"],
  ],
  [
    "break immediately",
    { action: "break", periodSeconds: 0 },
    [ABSENT, "broken a", "broken a", "broken a", "broken a"],
  ],
  [
    "break after 10 seconds",
    { action: "break", periodSeconds: 10 },
    [ABSENT, "breaking a", "breaking a", "broken a", "broken a"],
  ],
  [
    "change from the current id",
    { action: "change", id: A, proposedId: B },
    [ABSENT, "leased b", "LeaseIsBreakingAndCannotBeChanged", ABSENT, ABSENT],
  ],
  [
    "change to the current id again",
    { action: "change", id: B, proposedId: A },
    [ABSENT, "leased a", "LeaseIsBreakingAndCannotBeChanged", ABSENT, ABSENT],
  ],
  [
    "change between other ids",
    { action: "change", id: B, proposedId: C },
    [ABSENT, MISMATCH, MISMATCH, ABSENT, ABSENT],
  ],
  [
    "renew",
    { action: "renew", id: A },
    [
      MISMATCH,
      "leased a",
      "LeaseIsBrokenAndCannotBeRenewed",
      "LeaseIsBrokenAndCannotBeRenewed",
      "leased a",
    ],
  ],
  [
    "renew with another id",
    { action: "renew", id: B },
    [MISMATCH, MISMATCH, MISMATCH, MISMATCH, MISMATCH],
  ],
  [
    "release",
    { action: "release", id: A },
    [MISMATCH, "available", "available", "available", "available"],
  ],
  [
    "release with another id",
    { action: "release", id: B },
    [MISMATCH, MISMATCH, MISMATCH, MISMATCH, MISMATCH],
  ],
];

describe("A lease", () => {
  for (const [name, action, outcomes] of ACTIONS) {
    for (const [i, state] of STATES.entries()) {
      it(`that is ${state}: ${name} → ${outcomes[i]}`, () => {
        assert.equal(
          outcomeOf(() => {
            const lease = actOnLease(LEASES[state], action, NOW);
            const after = leaseState(lease, NOW);
            return lease ? `${after} ${lease.id}` : after;
          }),
          outcomes[i],
        );
      });
    }
  }

  it("expires, or is broken, exactly when its time is over", () => {
    const fixed = actOnLease(undefined, { action: "acquire", seconds: 15, proposedId: A }, NOW);
    assert.equal(leaseState(fixed, NOW + 15 * SECOND - 1), "leased");
    assert.equal(leaseState(fixed, NOW + 15 * SECOND), "expired");
    const breaking = actOnLease(LEASES.infinite, { action: "break", periodSeconds: 10 }, NOW);
    assert.equal(leaseState(breaking, NOW + 10 * SECOND - 1), "breaking");
    assert.equal(leaseState(breaking, NOW + 10 * SECOND), "broken");
  });

  it("keeps its duration when it is renewed", () => {
    const renewed = actOnLease(LEASES.leased, { action: "renew", id: A }, NOW);
    assert.deepEqual(renewed, { id: A, seconds: 30, endsAt: NOW + 30 * SECOND });
  });

  it("is broken after the break period or at its end, whichever is sooner, and immediately if infinite without a period", () => {
    for (const [state, periodSeconds, expected] of [
      ["leased", undefined, 20],
      ["leased", 10, 10],
      ["leased", 60, 20],
      ["infinite", undefined, 0],
      ["infinite", 60, 60],
      ["breaking", undefined, 20],
      ["breaking", 60, 20],
      ["breaking", 5, 5],
      ["broken", 60, 0],
      ["expired", 60, 0],
    ] as const) {
      const lease = actOnLease(LEASES[state], { action: "break", periodSeconds }, NOW)!;
      assert.equal(secondsUntilBroken(lease, NOW), expected, `${state} ${periodSeconds}`);
    }
  });

  it("has headers for its state, and for its duration while it is leased", () => {
    const text = (state: State) => leaseHeaders(LEASES[state], NOW).join(" ");
    assert.equal(
      text("leased"),
      "x-ms-lease-status locked x-ms-lease-state leased x-ms-lease-duration fixed",
    );
    assert.match(text("infinite"), / infinite$/);
    assert.equal(text("breaking"), "x-ms-lease-status locked x-ms-lease-state breaking");
    assert.equal(text("broken"), "x-ms-lease-status unlocked x-ms-lease-state broken");
  });

  it("has list elements equal to the headers", () => {
    for (const state of [
      "available",
      "leased",
      "infinite",
      "breaking",
      "broken",
      "expired",
    ] as const) {
      const headers = leaseHeaders(LEASES[state], NOW);
      const elements = printLease(LEASES[state], NOW).matchAll(/<Lease(\w+)>(\w+)<\/Lease\1>/g);
      const given = Array.from(elements, ([, name = "", value]) => [
        `x-ms-lease-${name.toLowerCase()}`,
        value,
      ]);
      assert.deepEqual(given.flat(), headers);
    }
  });

  it("is removed by a write unless it is leased or breaking", () => {
    for (const state of ["available", "broken", "expired"] as const) {
      assert.equal(leaseAfterWrite(LEASES[state], NOW), undefined);
    }
    for (const state of ["leased", "breaking"] as const) {
      assert.equal(leaseAfterWrite(LEASES[state], NOW), LEASES[state]);
    }
  });
});

const NO_BLOB_LEASE = "LeaseNotPresentWithBlobOperation";
const OTHER_BLOB_LEASE = "LeaseIdMismatchWithBlobOperation";

/** Uses of a leased blob: the id presented, then each state's answer to a write and to a read. */
const USES: readonly [string | undefined, readonly string[], readonly string[]][] = [
  [
    A,
    [NO_BLOB_LEASE, "ok", "ok", "LeaseLost", "LeaseLost"],
    [NO_BLOB_LEASE, "ok", "ok", "LeaseLost", "LeaseLost"],
  ],
  [
    B,
    [NO_BLOB_LEASE, OTHER_BLOB_LEASE, OTHER_BLOB_LEASE, NO_BLOB_LEASE, NO_BLOB_LEASE],
    [NO_BLOB_LEASE, OTHER_BLOB_LEASE, OTHER_BLOB_LEASE, NO_BLOB_LEASE, NO_BLOB_LEASE],
  ],
  [
    undefined,
    ["ok", "LeaseIdMissing", "LeaseIdMissing", "ok", "ok"],
    ["ok", "ok", "ok", "ok", "ok"],
  ],
];

describe("A leased blob", () => {
  for (const [id, writes, reads] of USES) {
    for (const [i, state] of STATES.entries()) {
      it(`that is ${state}, used with ${id ?? "no id"}: write ${writes[i]}, read ${reads[i]}`, () => {
        const lease = LEASES[state];
        assert.equal(
          outcomeOf(() => checkLeaseForWrite(lease, id, NOW, "blob")),
          writes[i],
        );
        assert.equal(
          outcomeOf(() => checkLeaseForRead(lease, id, NOW, "blob")),
          reads[i],
        );
      });
    }
  }

  it("has other refusals than a leased container", () => {
    for (const [state, id, code] of [
      ["leased", undefined, "LeaseIdMissing"],
      ["leased", B, "LeaseIdMismatchWithContainerOperation"],
      ["expired", A, "LeaseNotPresentWithContainerOperation"],
    ] as const) {
      const use = () => checkLeaseForWrite(LEASES[state], id, NOW, "container");
      assert.equal(outcomeOf(use), code);
    }
    assert.throws(
      () => checkLeaseForWrite(LEASES.leased, undefined, NOW, "container"),
      /on the container/,
    );
  });
});

function outcomeOf(action: () => unknown): string {
  try {
    return String(action() ?? "ok");
  } catch (error) {
    if (error instanceof ServiceError) return error.code;
    throw error;
  }
}
