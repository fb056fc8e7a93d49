import { type AccessPolicy, printPolicyTime } from "@rowhouse/protocol/access-policy";
import { LIMITS } from "@rowhouse/protocol/limits";
import type { DocumentRules } from "./document-rules.ts";
import { checkElementsOnly, leafText, Members } from "./members.ts";
import { printDocument, printElement, printLeaf } from "./print-xml.ts";
import { readXml, type XmlElement } from "./read-xml.ts";
import { invalidNodeValue, invalidXml, wrongNode } from "./xml-refusal.ts";

/**
 * Parses the body of Set Table, Queue or Container ACL; an empty body is an empty list.
 * @throws ServiceError InvalidXmlDocument, InvalidXmlNodeValue, or the codes of `rules`.
 */
export function parseAccessPolicies(body: Uint8Array, rules: DocumentRules): AccessPolicy[] {
  if (body.length === 0) return [];
  const root = readXml(body);
  if (root.name !== ROOT) throw invalidXml(`The root element is ${root.name}, not ${ROOT}.`);
  const count = root.children.length;
  if (count > LIMITS.accessPoliciesMax) {
    throw invalidXml(`${count} identifiers; at most ${LIMITS.accessPoliciesMax} are allowed.`);
  }
  checkElementsOnly(root);
  const policies = root.children.map((child) => parseIdentifier(child, rules));
  if (new Set(policies.map(({ id }) => id)).size < count) throw invalidXml("An Id is given twice.");
  return policies;
}

/** The body of Get Table, Queue or Container ACL. A policy with an id only has no `AccessPolicy` element. */
export function printAccessPolicies(policies: readonly AccessPolicy[]): string {
  return printDocument(printElement(ROOT, policies.map(printIdentifier).join("")));
}

const ROOT = "SignedIdentifiers";

function parseIdentifier(element: XmlElement, rules: DocumentRules): AccessPolicy {
  if (element.name !== "SignedIdentifier") throw wrongNode(rules.unknownNode, element.name);
  const members = new Members(element, ["Id", "AccessPolicy"], rules);
  const id = parseId(members.optional("Id"));
  const policy = members.optional("AccessPolicy");
  if (policy === undefined) return { id };
  const parts = new Members(policy, ["Start", "Expiry", "Permission"], rules);
  const start = parseTime(parts.optional("Start"), rules);
  const expiry = parseTime(parts.optional("Expiry"), rules);
  const permission = parsePermission(parts.optional("Permission"), rules);
  return {
    id,
    ...(start !== undefined && { start }),
    ...(expiry !== undefined && { expiry }),
    ...(permission !== undefined && { permission }),
  };
}

function parseId(element: XmlElement | undefined): string {
  const id = element === undefined ? "" : leafText(element);
  if (id.length < 1 || id.length > LIMITS.accessPolicyIdLengthMax) {
    throw invalidXml(
      `An Id has 1 to ${LIMITS.accessPolicyIdLengthMax} characters, not ${id.length}.`,
    );
  }
  return id;
}

/** An empty element means the same as a missing one. */
function parseTime(element: XmlElement | undefined, rules: DocumentRules): string | undefined {
  const text = element === undefined ? "" : leafText(element);
  if (element === undefined || text === "") return undefined;
  const printed = printPolicyTime(text);
  if (printed !== undefined) return rules.policyTimes === "as-sent" ? text : printed;
  const expected = "An ISO 8601 time in UTC is expected.";
  if (rules.wrongPolicyTime === "InvalidXmlDocument") throw invalidXml(expected);
  throw invalidNodeValue(element.name, text, expected);
}

function parsePermission(
  element: XmlElement | undefined,
  rules: DocumentRules,
): string | undefined {
  const letters = element === undefined ? "" : leafText(element);
  if (element === undefined || letters === "") return undefined;
  for (const letter of letters) {
    if (rules.policyLetters.includes(letter)) continue;
    // Recorded for a queue: without a place and without a reason.
    if (rules.wrongPolicyLetter === "InvalidXmlDocument") throw invalidXml("");
    const expected = `Letters of ${rules.policyLetters} are expected.`;
    throw invalidNodeValue(element.name, letters, expected);
  }
  return letters;
}

function printIdentifier({ id, start, expiry, permission }: AccessPolicy): string {
  const parts =
    (start === undefined ? "" : printLeaf("Start", start)) +
    (expiry === undefined ? "" : printLeaf("Expiry", expiry)) +
    (permission === undefined ? "" : printLeaf("Permission", permission));
  const policy = parts === "" ? "" : printElement("AccessPolicy", parts);
  return printElement("SignedIdentifier", printLeaf("Id", id) + policy);
}
