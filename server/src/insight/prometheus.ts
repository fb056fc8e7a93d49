/** A metric and its samples, in the text format that Prometheus scrapes (version 0.0.4). */
export interface Metric {
  readonly name: string;
  readonly type: "counter" | "gauge" | "histogram";
  readonly help: string;
  readonly samples: readonly Sample[];
}

export interface Sample {
  /** Appended to the metric's name: `_bucket`, `_sum`, `_count`. */
  readonly suffix?: string;
  readonly labels?: Readonly<Record<string, string | number>>;
  readonly value: number;
}

/** A metric with one sample. */
export function single(name: string, type: Metric["type"], help: string, value: number): Metric {
  return { name, type, help, samples: [{ value }] };
}

export const PROMETHEUS_TYPE = "text/plain; version=0.0.4; charset=utf-8";

export function printMetrics(metrics: readonly Metric[]): string {
  const lines: string[] = [];
  for (const { name, type, help, samples } of metrics) {
    lines.push(`# HELP ${name} ${help}`, `# TYPE ${name} ${type}`);
    for (const { suffix = "", labels = {}, value } of samples) {
      lines.push(`${name}${suffix}${printLabels(labels)} ${value}`);
    }
  }
  return `${lines.join("\n")}\n`;
}

function printLabels(labels: NonNullable<Sample["labels"]>): string {
  const pairs = Object.entries(labels).map(([name, value]) => `${name}="${escapeLabel(value)}"`);
  return pairs.length === 0 ? "" : `{${pairs.join(",")}}`;
}

function escapeLabel(value: string | number): string {
  return String(value).replaceAll("\\", "\\\\").replaceAll('"', '\\"').replaceAll("\n", "\\n");
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
