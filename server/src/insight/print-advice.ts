import { RULE_TITLES } from "./advice.ts";
import type { Advice } from "./advise.ts";

/** For people. */
export function printAdvice({ events, findings, lines }: Advice): string {
  const out = [`${events} operations looked at, ${findings.length} findings`];
  for (const { rule, table, title, evidence, cost, cure } of findings) {
    out.push("", `${table}: ${title}  [${rule}]`);
    for (const each of evidence) out.push(`  seen     ${each}`);
    out.push(`  costs    ${cost}`, `  cure     ${cure.advice} (${cure.pattern})`);
    for (const each of cure.layout) out.push(`           ${each}`);
    out.push(`  works    ${cure.portable ? "here and in the cloud" : "here only"}`);
  }
  out.push("", "The checklist:");
  for (const { question, verdict, note } of lines) {
    out.push(`  ${verdict.padEnd(13)} ${question}${note ? ` (${note})` : ""}`);
  }
  return `${out.join("\n")}\n`;
}

/** For machines that show findings beside code: SARIF 2.1.0. */
export function adviceSarif({ findings, lines }: Advice, version: string): object {
  return {
    $schema: "https://json.schemastore.org/sarif-2.1.0.json",
    version: "2.1.0",
    runs: [
      {
        tool: {
          driver: {
            name: "rowhouse advise",
            version,
            rules: Object.entries(RULE_TITLES).map(([id, text]) => ({
              id,
              shortDescription: { text },
            })),
          },
        },
        results: findings.map(({ rule, table, title, evidence, cost, cure }) => ({
          ruleId: rule,
          level: "warning",
          message: {
            text: [`${table}: ${title}.`, ...evidence, cost, cure.advice, ...cure.layout].join(
              "\n",
            ),
          },
          locations: [
            {
              logicalLocations: [
                { fullyQualifiedName: table, kind: table.includes("/") ? "table" : "account" },
              ],
            },
          ],
          partialFingerprints: { "rowhouse/v1": `${rule}:${table}` },
        })),
        properties: { checklist: lines },
      },
    ],
  };
}
