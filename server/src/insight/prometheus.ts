/** A metric and its samples, in the text format that Prometheus scrapes (version 0.0.4). */
export interface Metric {
  readonly name: string;
  readonly type: "counter" | "gauge" | "histogram";
  readonly help: string;
  readonly samples: readonly Sample[];
  /** What the value of several processes over the same data is. Default "sum". */
  readonly across?: "sum" | "max" | "min" | "first";
}

export interface Sample {
  /** Appended to the metric's name: `_bucket`, `_sum`, `_count`. */
  readonly suffix?: string;
  readonly labels?: Readonly<Record<string, string | number>>;
  readonly value: number;
}

/** A metric with one sample. */
export function single(
  name: string,
  type: Metric["type"],
  help: string,
  value: number,
  across: Metric["across"] = "sum",
): Metric {
  return { name, type, help, across, samples: [{ value }] };
}

/** A metric in the form of `prom-client`, which is also how workers send it to each other. */
export interface MetricPart {
  readonly name: string;
  readonly help: string;
  readonly type: string;
  readonly aggregator: string;
  readonly values: readonly object[];
}

/**
 * Counting is ours: the library looks each label set up by a text that it builds, at every count. What it does is
 * everything at a scrape: adding the parts of several processes, and the text format.
 */
export function partsOf(metrics: readonly Metric[]): MetricPart[] {
  return metrics.map(({ name, type, help, samples, across = "sum" }) => ({
    ...{ name, type, help, aggregator: across },
    values: samples.map(({ suffix = "", labels = {}, value }) => ({
      ...{ labels, value, metricName: `${name}${suffix}` },
    })),
  }));
}

/** Counts values in buckets with fixed bounds. */
export class Histogram {
  readonly #bounds: readonly number[];
  readonly #counts: Float64Array;
  #sum = 0;

  /** @param bounds ascending upper bounds, each included in its bucket */
  constructor(bounds: readonly number[]) {
    this.#bounds = bounds;
    this.#counts = new Float64Array(bounds.length + 1);
  }

  add(value: number): void {
    const bounds = this.#bounds;
    let at = 0;
    // Most values are small: searching from the front takes one or two comparisons.
    while (at < bounds.length && value > bounds[at]!) at++;
    this.#counts[at] = this.#counts[at]! + 1;
    this.#sum += value;
  }

  samples(labels: NonNullable<Sample["labels"]>): Sample[] {
    const samples: Sample[] = [];
    let count = 0;
    for (const [i, own] of this.#counts.entries()) {
      count += own;
      const le = this.#bounds[i] ?? "+Inf";
      samples.push({ suffix: "_bucket", labels: { ...labels, le }, value: count });
    }
    samples.push({ suffix: "_sum", labels, value: this.#sum });
    samples.push({ suffix: "_count", labels, value: count });
    return samples;
  }
}
