import { ServiceError } from "@rowhouse/protocol/errors";
import { LIMITS } from "@rowhouse/protocol/limits";
import { isProtocolVersion } from "@rowhouse/protocol/protocol-version";
import { parseCorsRules } from "./cors-rules.ts";
import type { DocumentRules, PropertyGroup } from "./document-rules.ts";
import { booleanOf, leafText, Members } from "./members.ts";
import { readXml, type XmlElement } from "./read-xml.ts";
import type {
  Logging,
  Metrics,
  RetentionDays,
  ServicePropertiesChange,
  StaticWebsite,
} from "./service-properties.ts";
import { invalidNodeValue, invalidXml } from "./xml-refusal.ts";

/**
 * Parses the body of Set Service Properties. Each group given must be complete.
 * @throws ServiceError InvalidXmlDocument, InvalidXmlNodeValue, the codes of `rules`, and
 * NotImplemented for soft delete and static websites.
 */
export function parseServiceProperties(
  body: Uint8Array,
  rules: DocumentRules,
): ServicePropertiesChange {
  const root = readXml(body);
  if (root.name !== ROOT) throw invalidXml(`The root element is ${root.name}, not ${ROOT}.`);
  const groups = new Members(root, rules.groups, rules);
  if (root.children.length === 0) throw invalidXml("No group of properties is given.");
  let change: ServicePropertiesChange = {};
  for (const name of rules.groups) {
    const group = groups.optional(name);
    if (group !== undefined) change = { ...change, ...parseGroup(name, group, rules) };
  }
  return change;
}

const ROOT = "StorageServiceProperties";

function parseGroup(
  name: PropertyGroup,
  group: XmlElement,
  rules: DocumentRules,
): ServicePropertiesChange {
  switch (name) {
    case "Logging":
      return { logging: parseLogging(group, rules) };
    case "HourMetrics":
      return { hourMetrics: parseMetrics(group, rules) };
    case "MinuteMetrics":
      return { minuteMetrics: parseMetrics(group, rules) };
    case "Cors":
      return { cors: parseCorsRules(group, rules) };
    case "DefaultServiceVersion":
      return { defaultServiceVersion: parseDefaultVersion(group) };
    case "DeleteRetentionPolicy":
      return { deleteRetentionPolicy: parseDeleteRetention(group, rules) };
    case "StaticWebsite":
      return { staticWebsite: parseStaticWebsite(group, rules) };
  }
}

function parseLogging(group: XmlElement, rules: DocumentRules): Logging {
  const members = new Members(group, rules.loggingMembers, rules);
  checkAnalyticsVersion(members.required("Version"));
  return {
    read: members.boolean("Read"),
    write: members.boolean("Write"),
    delete: members.boolean("Delete"),
    retentionDays: parseRetention(members.required("RetentionPolicy"), rules),
  };
}

function parseMetrics(group: XmlElement, rules: DocumentRules): Metrics {
  const names = ["Version", "Enabled", "IncludeAPIs", "RetentionPolicy"] as const;
  const members = new Members(group, names, rules);
  checkAnalyticsVersion(members.required("Version"));
  const enabled = members.boolean("Enabled");
  const retentionDays = parseRetention(members.required("RetentionPolicy"), rules);
  if (!enabled) return { enabled, retentionDays };
  return { enabled, includeApis: members.boolean("IncludeAPIs"), retentionDays };
}

function parseRetention(policy: XmlElement, rules: DocumentRules): RetentionDays {
  const members = new Members(policy, ["Enabled", "Days"], rules);
  if (!members.boolean("Enabled")) return null;
  const days = members.text("Days");
  if (/^[0-9]{1,3}$/.test(days) && Number(days) >= 1 && Number(days) <= LIMITS.retentionDaysMax) {
    return Number(days);
  }
  const allowed = `1 to ${LIMITS.retentionDaysMax} days are allowed.`;
  if (rules.wrongRetentionDays === "InvalidXmlDocument") throw invalidXml(allowed);
  throw invalidNodeValue("Days", days, allowed);
}

function checkAnalyticsVersion(version: XmlElement): void {
  const text = leafText(version);
  if (text !== "1.0") throw invalidNodeValue(version.name, text, "1.0 is the only version.");
}

/** Also a version older than those that requests may name: it only decides what they are told. */
function parseDefaultVersion(element: XmlElement): string {
  const version = leafText(element);
  if (!isProtocolVersion(version) || version < LIMITS.defaultServiceVersionMin) {
    throw invalidNodeValue(
      element.name,
      version,
      `A date from ${LIMITS.defaultServiceVersionMin} on is expected.`,
    );
  }
  return version;
}

/** Days and AllowPermanentDelete matter only for an enabled policy, which is refused. */
function parseDeleteRetention(group: XmlElement, rules: DocumentRules): { enabled: false } {
  const members = new Members(group, ["Enabled", "Days", "AllowPermanentDelete"], rules);
  return { enabled: checkDisabled(members.required("Enabled")) };
}

function parseStaticWebsite(group: XmlElement, rules: DocumentRules): StaticWebsite {
  const names = [
    "Enabled",
    "IndexDocument",
    "ErrorDocument404Path",
    "DefaultIndexDocumentPath",
  ] as const;
  const members = new Members(group, names, rules);
  const enabled = checkDisabled(members.required("Enabled"));
  const index = members.optional("IndexDocument");
  const error = members.optional("ErrorDocument404Path");
  const defaultIndex = members.optional("DefaultIndexDocumentPath");
  return {
    enabled,
    ...(index && { indexDocument: leafText(index) }),
    ...(error && { errorDocument404Path: leafText(error) }),
    ...(defaultIndex && { defaultIndexDocumentPath: leafText(defaultIndex) }),
  };
}

/** A feature that is not implemented is refused, not stored. */
function checkDisabled(enabled: XmlElement): false {
  if (booleanOf(enabled)) throw new ServiceError("NotImplemented");
  return false;
}
