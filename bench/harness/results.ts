import type { Reach } from "./case.ts";
import type { Comparison } from "./comparison.ts";
import type { Measurement } from "./measurement.ts";

/** The contents of the JSON files, one for each question. */
export interface QuestionResult {
  readonly question: string;
  readonly asks: string;
  readonly form: "short" | "long";
  readonly date: string;
  readonly machine: string;
  readonly versions: string;
  readonly cases: readonly CaseResult[];
  /** Why there are no more cases. */
  readonly error?: string;
}

export interface CaseResult {
  readonly name: string;
  readonly contenders: readonly ContenderResult[];
  readonly findings: readonly Finding[];
}

export interface ContenderResult {
  readonly name: string;
  readonly median: Measurement;
  readonly rounds: readonly Measurement[];
  readonly rowsPerSecond?: number;
}

/** A figure and the reach it is judged by; without a reach it is only reported. */
export interface Finding {
  readonly what: string;
  readonly value: number;
  readonly wanted?: string;
  readonly met?: boolean;
}

export function toCaseResult(
  work: { readonly name: string; readonly rows?: number; readonly reaches?: readonly Reach[] },
  comparison: Comparison,
): CaseResult {
  const { name, reaches = [], rows } = work;
  return {
    name,
    contenders: comparison.contenders.map((contender) => {
      const median = comparison.median(contender);
      const result = { name: contender, median, rounds: comparison.rounds(contender) };
      if (rows === undefined) return result;
      return { ...result, rowsPerSecond: median.operationsPerSecond * rows };
    }),
    findings: reaches.map(({ atLeast, atMost, value, what }) =>
      finding(what, value(comparison), { atLeast, atMost }),
    ),
  };
}

export function finding(
  what: string,
  value: number,
  wanted: { readonly atLeast?: number | undefined; readonly atMost?: number | undefined } = {},
): Finding {
  const { atLeast, atMost } = wanted;
  if (atLeast !== undefined) return { what, value, wanted: `≥ ${atLeast}`, met: value >= atLeast };
  if (atMost !== undefined) return { what, value, wanted: `≤ ${atMost}`, met: value <= atMost };
  return { what, value };
}

/** For the terminal, as soon as a case is finished. */
export function describe({ contenders, findings, name }: CaseResult): string[] {
  const lines = [name];
  for (const { median, name: contender, rowsPerSecond } of contenders) {
    const rate =
      rowsPerSecond === undefined
        ? `${rounded(median.operationsPerSecond)}/s`
        : `${rounded(rowsPerSecond)} rows/s`;
    lines.push(
      `  ${contender.padEnd(15)} ${rate.padStart(16)}  p50 ${rounded(median.p50Ms)} ms, ` +
        `p99 ${rounded(median.p99Ms)}, p99.9 ${rounded(median.p999Ms)}; ` +
        `${rounded(median.cpuMicrosPerOperation)} µs of CPU; ` +
        `server ${percent(median.serverCpuShare)}, client ${percent(median.clientCpuShare)}, others ${percent(median.othersCpuShare)}; ` +
        `${rounded(median.privateMemoryMb)} MiB` +
        (median.failures > 0 ? `; ${median.failures} FAILED` : ""),
    );
  }
  for (const { met, value, wanted, what } of findings) {
    const verdict = wanted === undefined ? "" : ` (wanted ${wanted}: ${met ? "yes" : "NO"})`;
    lines.push(`  → ${what}: ${rounded(value)}${verdict}`);
  }
  return lines;
}

/** Three significant digits, or a dash for a value that could not be measured. */
export function rounded(value: number | null): string {
  if (value === null || !Number.isFinite(value)) return "–";
  if (Math.abs(value) >= 100) return Math.round(value).toLocaleString("en-US");
  return String(Number(value.toPrecision(3)));
}

export function percent(share: number | null): string {
  return share === null || !Number.isFinite(share) ? "–" : `${Math.round(share * 100)} %`;
}
