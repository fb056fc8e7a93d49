import { terminalText } from "../terminal-text.ts";
import type { Advice } from "./advise.ts";
import { counted, RULE_TITLES } from "./rule.ts";

/** A remark on how much of the traffic the recording holds. */
const ENDINGS: Readonly<Record<Advice["recording"], string>> = {
  whole: "",
  full: "; the recording reached its maximum size: later traffic is missing",
  "cut off": "; the recording is incomplete: the server was killed, or is still running",
};

export const KEPT_NOTE =
  "(kept by this server, for unchanged clients; the design above works in the cloud too)";

/** As text for people. */
export function printAdvice({ events, recording, findings, lines }: Advice): string {
  const out = [
    `${events} operations checked, ${counted(findings.length, "finding")}${ENDINGS[recording]}`,
  ];
  for (const { rule, table, title, evidence, cost, remedy } of findings) {
    out.push("", `${table}: ${title}  [${rule}]`);
    for (const each of evidence) out.push(`  seen     ${each}`);
    out.push(`  cost     ${cost}`, `  remedy   ${remedy.advice} (${remedy.pattern})`);
    for (const each of remedy.layout) out.push(`           ${each}`);
    if (remedy.kept) out.push(`  or       ${remedy.kept}`, `           ${KEPT_NOTE}`);
  }
  out.push("", "The checklist:");
  for (const { question, verdict, note } of lines) {
    out.push(`  ${verdict.padEnd(13)} ${question}${note ? ` (${note})` : ""}`);
  }
  return terminalText(out);
}

/** For tools that show findings next to code: SARIF 2.1.0. */
export function adviceSarif(
  { events, recording, findings, lines }: Advice,
  version: string,
): object {
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
        results: findings.map(({ rule, table, subject, title, evidence, cost, remedy }) => ({
          ruleId: rule,
          level: "warning",
          message: {
            text: [`${table}: ${title}.`, ...evidence, cost, remedy.advice, ...remedy.layout].join(
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
          partialFingerprints: { "rowhouse/v2": `${rule}:${table}:${subject}` },
        })),
        properties: { operations: events, recording, checklist: lines },
      },
    ],
  };
}
