import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { memory } from "@rowhouse/patterns/testing";
import { archivePattern } from "./archive.ts";
import type { Pattern } from "./pattern.ts";
import { PATTERNS } from "./patterns.ts";
import { PlaygroundRun } from "./playground-run.ts";

const words = (run: PlaygroundRun) =>
  run.requests.value.map((each) => `${each.state} ${each.words}`);
const verdicts = (run: PlaygroundRun) => run.shown.value.verdicts.map(({ verdict }) => verdict);

/** Until what runs waits for a step, or is over. Everything here is in memory: turns of the event loop are all it takes. */
async function settled(run: PlaygroundRun): Promise<void> {
  for (let turns = 0; turns < 10_000; turns++) {
    await new Promise((resolve) => setImmediate(resolve));
    const states = run.requests.value.map(({ state }) => state);
    const waits = states.includes("waiting") && !states.includes("sent");
    if (run.state.value !== "running" || waits) return;
  }
  assert.fail("It stands still.");
}

async function opened(pattern: Pattern): Promise<PlaygroundRun> {
  const run = new PlaygroundRun(pattern, memory());
  await run.open();
  assert.ok(
    verdicts(run).every((verdict) => verdict === "holds"),
    "broken from the start",
  );
  return run;
}

describe("The playground's runner", () => {
  it("sends nothing before a step, and one request for each", async () => {
    const run = await opened(archivePattern);
    const ended = run.start(archivePattern.actions[0]!);
    await settled(run);
    assert.deepEqual(words(run), ["waiting send a message to work"]);
    assert.deepEqual(run.shown.value.queues.get("work"), []);
    run.step();
    await settled(run);
    assert.deepEqual(words(run), ["answered send a message to work", "waiting receive from work"]);
    assert.equal(run.shown.value.queues.get("work")?.length, 1);
    run.runOn();
    await ended;
    assert.equal(run.state.value, "at rest");
    assert.ok(verdicts(run).every((verdict) => verdict === "holds"));
  });

  it("shows what a crash between two writes leaves as broken for now, and as whole after the recovery", async () => {
    const run = await opened(archivePattern);
    run.start(archivePattern.actions[0]!);
    await settled(run);
    while (!words(run).at(-1)!.includes("commit to Employee: delete")) {
      run.step();
      await settled(run);
    }
    run.crash();
    await settled(run);
    assert.equal(run.state.value, "crashed");
    assert.match(words(run).at(-1)!, /^never sent commit to Employee: delete/);
    const [, both] = run.shown.value.verdicts;
    assert.deepEqual([both?.verdict, both?.evidence], ["for now", "456 is in both"]);
    const ended = run.start(archivePattern.recovery!);
    run.runOn();
    await ended;
    assert.equal(run.state.value, "at rest");
    assert.ok(verdicts(run).every((verdict) => verdict === "holds"));
  });

  it("marks the rows that a request wrote, and the one that it deleted, until the next", async () => {
    const run = await opened(archivePattern);
    const ended = run.start(archivePattern.actions[0]!);
    const marks = new Set<string>();
    const stop = run.shown.subscribe(({ tables }) => {
      for (const [table, rows] of tables)
        for (const { mark, row } of rows) if (mark) marks.add(`${mark} ${table} ${row.rowKey}`);
    });
    run.runOn();
    await ended;
    stop();
    assert.ok(marks.has("new EmployeeArchive empid_000456"));
    assert.ok(marks.has("gone Employee empid_000456"));
    assert.equal(
      [...run.shown.value.tables.values()].flat().some(({ mark }) => mark),
      false,
    );
  });

  it("goes on after a crash in the middle of requests that ran on", async () => {
    const run = await opened(archivePattern);
    run.start(archivePattern.actions[0]!);
    await settled(run);
    run.runOn();
    run.crash();
    const ended = run.start(archivePattern.recovery!);
    run.runOn();
    await ended;
    assert.equal(run.state.value, "at rest");
    assert.ok(verdicts(run).every((verdict) => verdict === "holds"));
  });

  it("says why a request was refused, and what the caller got", async () => {
    const pattern: Pattern = PATTERNS["sibling-index"];
    const run = await opened(pattern);
    const ended = run.start(pattern.actions.find(({ name }) => name.includes("Lee's"))!);
    run.runOn();
    await ended;
    const refused = run.requests.value.find(({ state }) => state === "refused");
    assert.equal(refused?.note, "409 EntityAlreadyExists");
    assert.match(run.outcome.value, /^Refused: .*leem@contoso.com/);
  });

  it("calls an invariant broken that does not hold although all is done", async () => {
    const invariants = [{ says: "no", when: "at rest", broken: () => "yes" }] as const;
    const run = new PlaygroundRun({ ...archivePattern, invariants }, memory());
    await run.open();
    assert.deepEqual(run.shown.value.verdicts, [
      { says: "no", verdict: "broken", evidence: "yes" },
    ]);
  });

  it("removes the tables when it is closed, and lets nothing run on", async () => {
    const backend = memory();
    const run = new PlaygroundRun(archivePattern, backend);
    await run.open();
    run.start(archivePattern.actions[0]!);
    await settled(run);
    await run.close();
    run.runOn();
    assert.deepEqual((await backend.tables.listTables({})).names, []);
  });
});

describe("Each pattern of the playground", () => {
  for (const [id, pattern] of Object.entries<Pattern>(PATTERNS))
    for (const action of pattern.actions)
      it(`keeps its invariants in a crash at any request: ${id}, ${action.name}`, async () => {
        for (let at = 0; ; at++) {
          const run = await opened(pattern);
          run.start(action);
          for (let sent = 0; sent < at; sent++) {
            await settled(run);
            run.step();
          }
          await settled(run);
          const isOver = run.state.value !== "running";
          run.crash();
          assert.ok(!verdicts(run).includes("broken"), `broken by a crash at request ${at + 1}`);
          const { recovery = action } = pattern;
          const ended = run.start(recovery);
          run.runOn();
          await ended;
          const left = run.shown.value.verdicts.filter(({ verdict }) => verdict !== "holds");
          assert.deepEqual(left, [], `not recovered from a crash at request ${at + 1}`);
          if (isOver) return;
        }
      });
});
