import { LIMITS } from "@rowhouse/protocol/limits";
import type { CorsMember, DocumentRules } from "./document-rules.ts";
import { checkElementsOnly, leafText, Members } from "./members.ts";
import { printElement, printLeaf } from "./print-xml.ts";
import type { XmlElement } from "./read-xml.ts";
import { invalidNodeValue, invalidXml, wrongNode } from "./xml-refusal.ts";

/** What browsers on one set of origins may do. `http/cors.ts` applies the rules in order. */
export interface CorsRule {
  /** Exact origins, origins whose first label is a wildcard (`http://*.contoso.com`), or `*`. */
  readonly allowedOrigins: readonly string[];
  /** Upper case. */
  readonly allowedMethods: readonly string[];
  /** Header names and `prefix*`, compared case-insensitively. */
  readonly allowedHeaders: readonly string[];
  readonly exposedHeaders: readonly string[];
  readonly maxAgeSeconds: number;
}

/**
 * Parses the `Cors` group; a group without rules turns CORS off.
 * @throws ServiceError InvalidXmlDocument, InvalidXmlNodeValue, or the codes of `rules`.
 */
export function parseCorsRules(cors: XmlElement, rules: DocumentRules): CorsRule[] {
  checkElementsOnly(cors);
  if (cors.children.length > LIMITS.corsRulesMax) {
    throw invalidXml(
      `${cors.children.length} CORS rules; at most ${LIMITS.corsRulesMax} are allowed.`,
    );
  }
  const parsed = cors.children.map((child) => {
    if (child.name !== "CorsRule") throw wrongNode(rules.unknownNode, child.name);
    return parseCorsRule(child, rules);
  });
  const bytes = parsed.reduce((sum, rule) => sum + textBytes(rule), 0);
  if (bytes > LIMITS.corsTextBytesMax) {
    throw invalidXml(
      `${bytes} bytes of CORS settings; at most ${LIMITS.corsTextBytesMax} are allowed.`,
    );
  }
  return parsed;
}

export function printCorsRules(cors: readonly CorsRule[], rules: DocumentRules): string {
  const printed = cors.map((rule) => {
    const values: Record<CorsMember, string | number> = {
      AllowedOrigins: rule.allowedOrigins.join(","),
      AllowedMethods: rule.allowedMethods.join(","),
      AllowedHeaders: rule.allowedHeaders.join(","),
      ExposedHeaders: rule.exposedHeaders.join(","),
      MaxAgeInSeconds: rule.maxAgeSeconds,
    };
    return printElement(
      "CorsRule",
      rules.corsMembers.map((name) => printLeaf(name, values[name])).join(""),
    );
  });
  return printElement("Cors", printed.join(""));
}

const METHODS = ["DELETE", "GET", "HEAD", "MERGE", "POST", "OPTIONS", "PUT", "PATCH"];

function parseCorsRule(element: XmlElement, rules: DocumentRules): CorsRule {
  const members = new Members(element, rules.corsMembers, rules);
  return {
    allowedOrigins: origins(members.required("AllowedOrigins")),
    allowedMethods: methods(members.required("AllowedMethods")),
    allowedHeaders: headers(members.required("AllowedHeaders")),
    exposedHeaders: headers(members.required("ExposedHeaders")),
    maxAgeSeconds: maxAge(members.required("MaxAgeInSeconds")),
  };
}

function origins(element: XmlElement): string[] {
  const list = items(element);
  if (list.length === 0 || list.length > LIMITS.corsOriginsMax) {
    throw wrongCount(element, list.length, `1 to ${LIMITS.corsOriginsMax} origins`);
  }
  return list;
}

function methods(element: XmlElement): string[] {
  const list = items(element);
  if (list.length === 0 || !list.every((method) => METHODS.includes(method))) {
    throw invalidNodeValue(element.name, element.text, `Expected some of ${METHODS.join(", ")}.`);
  }
  return list;
}

function headers(element: XmlElement): string[] {
  const list = items(element);
  const prefixes = list.filter((name) => name.endsWith("*")).length;
  if (prefixes > LIMITS.corsPrefixedHeadersMax) {
    throw wrongCount(element, prefixes, `at most ${LIMITS.corsPrefixedHeadersMax} prefixes`);
  }
  if (list.length - prefixes > LIMITS.corsLiteralHeadersMax) {
    throw wrongCount(element, list.length, `at most ${LIMITS.corsLiteralHeadersMax} names`);
  }
  return list;
}

function maxAge(element: XmlElement): number {
  const text = leafText(element);
  const seconds = /^[0-9]{1,10}$/.test(text) ? Number(text) : Number.NaN;
  if (!(seconds <= LIMITS.corsMaxAgeSecondsMax)) {
    throw invalidNodeValue(
      element.name,
      text,
      `Expected 0 to ${LIMITS.corsMaxAgeSecondsMax} seconds.`,
    );
  }
  return seconds;
}

/** A comma-separated list; white space around items is removed. */
function items(element: XmlElement): string[] {
  const text = leafText(element);
  if (text === "") return [];
  const list = text.split(",").map((item) => item.trim());
  for (const item of list) {
    if (item === "" || item.length > LIMITS.corsItemLengthMax || !VISIBLE_ASCII.test(item)) {
      throw invalidNodeValue(
        element.name,
        item,
        `Items are 1 to ${LIMITS.corsItemLengthMax} visible ASCII characters.`,
      );
    }
  }
  return list;
}

/** Items become response headers, so they may contain nothing else. */
const VISIBLE_ASCII = /^[\u0021-\u007e]*$/;

function wrongCount(element: XmlElement, count: number, allowed: string): Error {
  return invalidNodeValue(element.name, element.text, `${count} given; ${allowed} expected.`);
}

/** The size that counts towards the limit for all rules together: the settings without their tags. */
function textBytes(rule: CorsRule): number {
  const { allowedOrigins, allowedMethods, allowedHeaders, exposedHeaders, maxAgeSeconds } = rule;
  const texts = [allowedOrigins, allowedMethods, allowedHeaders, exposedHeaders].map(String);
  return texts.join("").length + String(maxAgeSeconds).length;
}
