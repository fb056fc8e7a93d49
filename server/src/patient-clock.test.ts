import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { PatientClock } from "./patient-clock.ts";

const MINUTE = 60_000;
const DAY = 86_400_000;

describe("A patient clock", () => {
  it("follows the clock while it runs normally, is slewed or is set back", () => {
    const lab = new Lab();
    for (const step of [0, 59_000, -3 * DAY, 1000]) {
      lab.set(step);
      lab.pass(15_000);
      assert.equal(lab.patient.now(), lab.clock.now());
    }
  });

  it("ignores a jump ahead, and equals the clock again once that is corrected", () => {
    const lab = new Lab();
    lab.set(8 * DAY);
    assert.equal(lab.patient.now(), lab.clock.now() - 8 * DAY);
    lab.pass(MINUTE);
    lab.set(2 * DAY);
    assert.equal(lab.patient.now(), lab.clock.now() - 10 * DAY);
    lab.set(-10 * DAY);
    assert.equal(lab.patient.now(), lab.clock.now());
  });

  it("accepts a jump after a day, and ignores the next one for a day", () => {
    const lab = new Lab();
    lab.set(8 * DAY);
    lab.patient.now();
    lab.pass(DAY - 1);
    assert.equal(lab.patient.now(), lab.clock.now() - 8 * DAY);
    lab.pass(1);
    assert.equal(lab.patient.now(), lab.clock.now());
    lab.set(DAY);
    assert.equal(lab.patient.now(), lab.clock.now() - DAY);
  });

  it("accepts each jump a day after it, such as those of a machine that is suspended every night", () => {
    const lab = new Lab();
    lab.set(DAY / 2);
    lab.patient.now();
    lab.pass(DAY - MINUTE);
    lab.set(8 * DAY);
    lab.patient.now();
    lab.pass(MINUTE);
    assert.equal(lab.patient.now(), lab.clock.now() - 8 * DAY);
    lab.set(-8 * DAY);
    assert.equal(lab.patient.now(), lab.clock.now());
    lab.set(DAY / 2);
    lab.patient.now();
    lab.pass(DAY / 2);
    lab.set(DAY / 2);
    lab.patient.now();
    lab.pass(DAY / 2);
    assert.equal(lab.patient.now(), lab.clock.now() - DAY / 2);
    lab.pass(DAY / 2);
    assert.equal(lab.patient.now(), lab.clock.now());
  });
});

class Lab {
  #elapsed = 500;
  #offset = Date.UTC(2026, 6, 31);
  readonly clock = { now: () => this.#offset + this.#elapsed, elapsed: () => this.#elapsed };
  readonly patient = new PatientClock(this.clock);

  pass(milliseconds: number): void {
    this.#elapsed += milliseconds;
  }

  set(milliseconds: number): void {
    this.#offset += milliseconds;
  }
}
