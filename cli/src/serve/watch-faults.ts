import { BLOB_OPERATIONS } from "@rowhouse/server/blob/blob-service";
import { FaultGate, parseFaultRules } from "@rowhouse/server/insight/fault-rules";
import { QUEUE_OPERATIONS } from "@rowhouse/server/queue/queue-service";
import { TABLE_OPERATIONS } from "@rowhouse/server/table/table-service";

const OPERATIONS = new Set(
  [TABLE_OPERATIONS, QUEUE_OPERATIONS, BLOB_OPERATIONS].flatMap((all) =>
    all.map(({ name }) => name),
  ),
);

/** @throws Error for invalid rules; a rule with a misspelt operation would never take effect. */
export function openFaultGate(text: string): FaultGate {
  const rules = parseFaultRules(text);
  for (const { operation } of rules) {
    if (operation === undefined || OPERATIONS.has(operation)) continue;
    throw new Error(
      `"${operation}" in a fault rule is not an operation; COMPATIBILITY.md lists them.`,
    );
  }
  return new FaultGate(rules);
}
