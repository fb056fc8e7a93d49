import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { ServiceError } from "@rowhouse/protocol/errors";
import { parseFilter } from "@rowhouse/protocol/filter-parser";
import { planQuery } from "../query/planner.ts";
import { advise } from "./advice/advise.ts";
import { AzureTargets, type TargetsMode } from "./azure-targets.ts";
import { FaultGate, parseFaultRules } from "./fault-rules.ts";
import { joinInsights, keysRead, type QueryCost, type QueryFacts } from "./insight.ts";
import { random, seeded } from "./test-traffic.ts";
import { TrafficRecorder } from "./traffic-recorder.ts";

describe("The check against the cloud's targets", () => {
  it("allows 2,000 entities of a partition in a second, and refills two each millisecond", () => {
    const { write, tick } = against("enforce");
    for (let i = 0; i < 20; i++) assert.equal(write("p", 100), "ok");
    assert.equal(write("p", 1), "ServerBusy");
    assert.equal(write("q", 1), "ok");
    tick(1);
    assert.equal(write("p", 2), "ok");
    assert.equal(write("p", 1), "ServerBusy");
  });

  it("refills the allowance at the same rate after the clock was set back", () => {
    const { write, tick } = against("enforce");
    for (let i = 0; i < 20; i++) assert.equal(write("p", 100), "ok");
    tick(-3_600_000);
    assert.equal(write("p", 1), "ServerBusy");
    tick(1);
    assert.equal(write("p", 2), "ok");
  });

  it("allows 20,000 entities of an account in a second, over any number of partitions", () => {
    const { write } = against("enforce");
    for (let i = 0; i < 200; i++) assert.equal(write(`p${i}`, 100), "ok");
    assert.equal(write("other", 1), "ServerBusy");
  });

  it("gives each process its share of the targets", () => {
    const targets = new AzureTargets("what-if", () => {}, 2);
    const mutation = { kind: "insert", rowKey: "r", ifMatch: undefined } as const;
    const base = { at: 0, account: "a", table: "T", partitionKey: "p", client: "::1" };
    for (let i = 0; i < 1_005; i++) targets.admitWrite({ ...base, mutations: [mutation] });
    assert.equal(targets.report().throttled, 5);
  });

  it("counts the entities that a query scanned, and checks the account before the partition", () => {
    const { query, targets } = against("enforce");
    assert.equal(query("PartitionKey eq 'p' and Age eq 1", 1_000), "ok");
    assert.equal(query("PartitionKey eq 'p' and Age eq 1", 25_000), "ok");
    // The account, which is in debt as well, is checked first.
    assert.equal(query("PartitionKey eq 'p' and Age eq 1", 1), "ServerBusy");
    assert.equal(targets.report().entities, 26_000);
  });

  it("answers OperationTimedOut while only the partition is more than ten seconds behind", () => {
    const { query, tick } = against("enforce");
    query("PartitionKey eq 'p' and Age eq 1", 60_000);
    tick(3_000);
    assert.equal(query("PartitionKey eq 'p' and Age eq 1", 1), "OperationTimedOut");
    tick(20_000);
    assert.equal(query("PartitionKey eq 'p' and Age eq 1", 1), "ServerBusy");
    tick(7_000);
    assert.equal(query("PartitionKey eq 'p' and Age eq 1", 1), "ok");
  });

  it("counts each place and error code separately, also if requests to them alternate", () => {
    const { query, tick, targets } = against("what-if");
    const ask = (partition: string, entities: number) =>
      query(`PartitionKey eq '${partition}' and Age eq 1`, entities);
    ask("q", 6_000);
    ask("r", 6_000);
    ask("p", 30_000);
    // The account is out of debt, the partitions are not.
    tick(1_850);
    for (let i = 0; i < 3; i++) for (const partition of "pqqrqp") ask(partition, 1);
    // By then, the hopeless partition is only behind.
    tick(8_000);
    for (let i = 0; i < 2; i++) ask("p", 1);
    assert.deepEqual(
      targets.report().places.map(({ where, code, count }) => [where, code, count]),
      [
        ["a/T/p", "OperationTimedOut", 6],
        ["a/T/q", "ServerBusy", 9],
        ["a/T/r", "ServerBusy", 3],
        ["a/T/p", "ServerBusy", 2],
      ],
    );
  });

  it("finds the same requests in the modes enforce and what-if", () => {
    const outcomes = (["enforce", "what-if"] as const).map((mode) => {
      const run = against(mode);
      const throttledAt: number[] = [];
      const random = seeded(7);
      for (let i = 0; i < 20_000; i++) {
        const partition = `p${Math.floor(50 ** random())}`;
        const before = run.targets.report().throttled;
        if (random() < 0.5) run.write(partition, 1 + Math.floor(100 * random()));
        else run.query(`PartitionKey eq '${partition}' and Age eq 1`, Math.floor(500 * random()));
        if (run.targets.report().throttled > before) throttledAt.push(i);
        run.tick(Math.floor(8 * random()));
      }
      const { entities, places } = run.targets.report();
      return { throttledAt, entities, places };
    });
    assert.ok(outcomes[0]!.throttledAt.length > 100);
    assert.deepEqual(outcomes[1], outcomes[0]);
  });
});

describe("The server's report of the cloud's targets", () => {
  it("counts what `rowhouse advise` counts over a recording of the same traffic, parallel queries included", () => {
    let text = "";
    let now = 1_000_000;
    const clock = { now: () => now };
    const targets = new AzureTargets("what-if");
    const recorder = new TrafficRecorder(clock, (part) => (text += Buffer.from(part).toString()));
    const insight = joinInsights([targets, recorder]);
    const next = random(5);
    const begun: QueryFacts[] = [];
    for (let i = 0; i < 5_000; i++) {
      const partitionKey = `p${next(3)}`;
      const [end, write] = [next(10) < 5, next(10) < 2];
      if (begun.length > 0 && (end || begun.length === 20)) {
        const [query] = begun.splice(next(begun.length), 1);
        insight.queried(query!, costOf(next(800)));
      } else if (write) {
        const mutation = { kind: "insert", rowKey: `${i}`, ifMatch: undefined } as const;
        const base = { at: now, account: "a", table: "T", client: "::1" };
        insight.admitWrite({ ...base, partitionKey, mutations: [mutation] });
      } else {
        const query = facts(`PartitionKey eq '${partitionKey}' and Age eq 1`, now);
        insight.admitQuery(query);
        begun.push(query);
      }
      now += next(60);
    }
    recorder.end();
    const counts = targets.report().places.map(({ where, code, count }) => {
      const times = `${count} ${count === 1 ? "time" : "times"}`;
      return `The cloud would have answered ${code} ${times} for ${where}`;
    });
    assert.ok(counts.length >= 3, `${counts}`);
    const advised = advise(text.split("\n")).findings.filter(({ rule }) => rule === "over-targets");
    assert.deepEqual(advised.map(({ title }) => title).sort(), counts.sort());
  });
});

describe("Fault rules", () => {
  const request = { operation: "InsertEntity", resource: "Orders" };

  it("hit only the operation and table they name, at their rate", () => {
    const turns = [0.05, 0.5];
    const surroundings = { random: () => turns.shift()!, wait: async () => {} };
    const gate = new FaultGate(
      parseFaultRules("503 on InsertEntity of orders rate 0.1"),
      surroundings,
    );
    assert.throws(() => gate.enter(request), { code: "ServerBusy" });
    gate.enter(request);
    gate.enter({ operation: "InsertEntity", resource: "Other" });
    gate.enter({ operation: "DeleteEntity", resource: "Orders" });
    assert.deepEqual(gate.metrics()[0]?.samples, [{ value: 1 }]);
  });

  it("add up their delays before they refuse the request", async () => {
    const waits: number[] = [];
    const wait = async (ms: number) => {
      waits.push(ms);
    };
    const gate = new FaultGate(parseFaultRules("delay 200; delay 50 OperationTimedOut"), {
      random: () => 0,
      wait,
    });
    await assert.rejects(Promise.resolve(gate.enter(request)), { code: "OperationTimedOut" });
    assert.deepEqual(waits, [250]);
  });

  const noNumber = (text: string, most: number) =>
    `"${text}" in a fault rule is not a number from 0 to ${most}.`;
  const noCode = (text: string) =>
    `"${text}" in a fault rule is not an error code; use one from the manual or one of 403, 409, 412, 500, 503.`;
  for (const [text, message] of [
    ["", "The fault rules are empty."],
    [";", "The fault rules are empty."],
    ["on InsertEntity", 'The fault rule "on InsertEntity" neither refuses nor delays.'],
    ["Sunburn", noCode("Sunburn")],
    ["503; constructor", noCode("constructor")],
    ["503 rate 2", noNumber("2", 1)],
    ["503 rate -1", noNumber("-1", 1)],
    ["503 rate", '"rate" in a fault rule needs a value.'],
    ["delay", '"delay" in a fault rule needs a value.'],
    ["delay soon", noNumber("soon", 600_000)],
    ["delay 600001", noNumber("600001", 600_000)],
  ] as const) {
    it(`are refused if they are ${JSON.stringify(text)}, with the reason`, () => {
      assert.throws(() => parseFaultRules(text), { message });
    });
  }
});

function facts(filter: string, at: number): QueryFacts {
  const plan = planQuery(parseFilter(filter));
  return {
    ...{ at, account: "a", table: "T", plan, planText: "", filter },
    ...{ projected: false, continued: false, class: plan.class, client: "::1", ...keysRead(plan) },
  };
}

function costOf(entitiesRead: number): QueryCost {
  return { entitiesRead, entitiesReturned: 0, bytesRead: 0, engineMicros: 0 };
}

function against(mode: TargetsMode) {
  let now = 1_000_000;
  const targets = new AzureTargets(mode);
  const outcome = (work: () => void) => {
    try {
      work();
      return "ok";
    } catch (error) {
      assert.ok(error instanceof ServiceError);
      return error.code;
    }
  };
  return {
    targets,
    tick(ms: number) {
      now += ms;
    },
    write: (partitionKey: string, count: number) =>
      outcome(() => {
        const mutation = { kind: "insert", rowKey: "r", ifMatch: undefined } as const;
        const mutations = new Array<typeof mutation>(count).fill(mutation);
        targets.admitWrite({
          at: now,
          account: "a",
          table: "T",
          partitionKey,
          mutations,
          client: "::1",
        });
      }),
    query: (filter: string, entitiesRead: number) =>
      outcome(() => {
        const query = facts(filter, now);
        targets.admitQuery(query);
        targets.queried(query, costOf(entitiesRead));
      }),
  };
}
