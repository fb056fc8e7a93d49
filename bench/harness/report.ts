import { mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { cpus, type as systemType, totalmem } from "node:os";
import { fileURLToPath } from "node:url";
import { AZURITE_VERSION } from "../contenders/azurite.ts";
import { CORES_DESCRIPTION } from "./cores.ts";
import { type CaseResult, percent, type QuestionResult, rounded } from "./results.ts";

const RESULTS = fileURLToPath(new URL("../results/", import.meta.url));
const TABLE = fileURLToPath(new URL("../RESULTS.md", import.meta.url));

export function machine(): string {
  const model = cpus()[0]?.model.trim() ?? "unknown processor";
  return `${model}, ${CORES_DESCRIPTION}, ${Math.round(totalmem() / 2 ** 30)} GiB, ${systemType()}`;
}

export function versions(): string {
  return `Node ${process.versions.node}, azurite ${AZURITE_VERSION}`;
}

/** One JSON file for each question. The short form writes elsewhere, so that it never replaces real figures. */
export function saveResult(result: QuestionResult): void {
  const folder = result.form === "short" ? `${RESULTS}short/` : RESULTS;
  mkdirSync(folder, { recursive: true });
  writeFileSync(`${folder}${result.question}.json`, `${JSON.stringify(result, null, 1)}\n`);
}

/**
 * Rewrites RESULTS.md from the results of every question, in this order. As long as some have no result on this
 * machine, the table of the others is written next to their results, so that RESULTS.md stays whole.
 */
export function writeTable(questions: readonly string[]): void {
  const saved = readdirSync(RESULTS)
    .filter((file) => file.endsWith(".json"))
    .map((file) => JSON.parse(readFileSync(RESULTS + file, "utf8")) as QuestionResult)
    .sort((a, b) => questions.indexOf(a.question) - questions.indexOf(b.question));
  const isWhole = questions.every((name) => saved.some(({ question }) => question === name));
  writeFileSync(isWhole ? TABLE : `${RESULTS}RESULTS.md`, renderTable(saved));
}

function renderTable(results: readonly QuestionResult[]): string {
  const lines = [
    "# What the bench measured",
    "",
    "Written by `npm run bench`. Each row is the median of its rounds; the contenders of a case took",
    "turns in one run. A ratio is the median of the ratios of its rounds. Clients work in a closed",
    "loop, except where a case sends at a fixed rate: there latency counts from when a request was",
    "due, and the load generator, which polls the clock, uses all of its core.",
    "CPU is that of the server process with all its threads; memory is private memory (RssAnon).",
    "Shares of CPU are of one core; others' CPU is of all cores and should be close to zero.",
    "Where the load generator's share nears 100 %, it is the limit: compare CPU, not throughput.",
    "",
    ...provenance(results),
    "",
    `| ${COLUMNS.join(" | ")} |`,
    `|${COLUMNS.map((_, i) => (i < 3 ? "---" : "---:")).join("|")}|`,
  ];
  for (const result of results) {
    for (const each of result.cases) lines.push(...rowsOf(result.question, each));
    if (result.error !== undefined) {
      lines.push(
        `| ${result.question} | ended early | ${result.error.split("\n")[0]} |${" |".repeat(COLUMNS.length - 3)}`,
      );
    }
  }
  return `${lines.join("\n")}\n`;
}

const COLUMNS = [
  "Question",
  "Case",
  "Contender or finding",
  "per second",
  "p50 ms",
  "p99 ms",
  "p99.9 ms",
  "CPU µs each",
  "server CPU",
  "client CPU",
  "others' CPU",
  "MiB",
  "value",
  "wanted",
  "met",
];

/** Lists what each question asks, then when and where it was measured, which is mostly the same for all. */
function provenance(results: readonly QuestionResult[]): string[] {
  const places = new Map<string, string[]>();
  for (const { date, form, machine, question, versions } of results) {
    const place = `${date}, ${form} form; ${machine}; ${versions}`;
    places.set(place, [...(places.get(place) ?? []), question]);
  }
  return [
    ...results.map(({ asks, question }) => `* **${question}**: ${asks}`),
    "",
    ...[...places].map(([place, questions]) => `Measured ${place}: ${questions.join(", ")}.`),
  ];
}

function rowsOf(question: string, { contenders, findings, name }: CaseResult): string[] {
  const rows = contenders.map(({ median, name: contender, rowsPerSecond }) => [
    question,
    name,
    contender + (median.failures > 0 ? ` (${median.failures} failed)` : ""),
    rowsPerSecond === undefined
      ? rounded(median.operationsPerSecond)
      : `${rounded(rowsPerSecond)} rows`,
    rounded(median.p50Ms),
    rounded(median.p99Ms),
    rounded(median.p999Ms),
    rounded(median.cpuMicrosPerOperation),
    percent(median.serverCpuShare),
    percent(median.clientCpuShare),
    percent(median.othersCpuShare),
    rounded(median.privateMemoryMb),
    "",
    "",
    "",
  ]);
  for (const { met, value, wanted, what } of findings) {
    const verdict = met === undefined ? "" : met ? "yes" : "**no**";
    const blanks = new Array<string>(9).fill("");
    rows.push([question, name, what, ...blanks, rounded(value), wanted ?? "", verdict]);
  }
  return rows.map((cells) => `| ${cells.join(" | ")} |`);
}
