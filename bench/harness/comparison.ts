import { type Measurement, median, medianOf } from "./measurement.ts";

/** The rounds of one case: contender by contender, in the order they were measured. */
export class Comparison {
  readonly #rounds: ReadonlyMap<string, readonly Measurement[]>;

  constructor(rounds: ReadonlyMap<string, readonly Measurement[]>) {
    this.#rounds = rounds;
  }

  get contenders(): string[] {
    return [...this.#rounds.keys()];
  }

  median(contender: string): Measurement {
    return medianOf(this.rounds(contender));
  }

  /** Median of each round's ratio, so that noise in the same seconds cancels out. */
  ratio(field: keyof Measurement, numerator: string, denominator: string): number {
    const below = this.rounds(denominator);
    return median(this.rounds(numerator).map((above, i) => above[field] / below[i]![field]));
  }

  rounds(contender: string): readonly Measurement[] {
    const measured = this.#rounds.get(contender);
    if (measured === undefined) throw new Error(`${contender} was not measured.`);
    return measured;
  }
}
