import { printCorsRules } from "./cors-rules.ts";
import type { DocumentRules, LoggingMember, PropertyGroup } from "./document-rules.ts";
import { printDocument, printElement, printLeaf } from "./print-xml.ts";
import type {
  Logging,
  Metrics,
  RetentionDays,
  ServiceProperties,
  StaticWebsite,
} from "./service-properties.ts";

/** The body of Get Service Properties, its groups in the order of `rules`. */
export function printServiceProperties(
  properties: ServiceProperties,
  rules: DocumentRules,
): string {
  const groups = rules.groups.map((name) => printGroup(name, properties, rules));
  return printDocument(printElement("StorageServiceProperties", groups.join("")));
}

function printGroup(
  name: PropertyGroup,
  properties: ServiceProperties,
  rules: DocumentRules,
): string {
  const { defaultServiceVersion, deleteRetentionPolicy, staticWebsite } = properties;
  switch (name) {
    case "Logging":
      return printLogging(properties.logging, rules);
    case "HourMetrics":
      return printMetrics(name, properties.hourMetrics);
    case "MinuteMetrics":
      return printMetrics(name, properties.minuteMetrics);
    case "Cors":
      return printCorsRules(properties.cors, rules);
    case "DefaultServiceVersion":
      return defaultServiceVersion === undefined ? "" : printLeaf(name, defaultServiceVersion);
    case "DeleteRetentionPolicy":
      return deleteRetentionPolicy === undefined
        ? ""
        : printElement(name, printLeaf("Enabled", deleteRetentionPolicy.enabled));
    case "StaticWebsite":
      return staticWebsite === undefined ? "" : printStaticWebsite(staticWebsite);
  }
}

function printLogging(logging: Logging, rules: DocumentRules): string {
  const members: Record<LoggingMember, string> = {
    Version: printLeaf("Version", "1.0"),
    Read: printLeaf("Read", logging.read),
    Write: printLeaf("Write", logging.write),
    Delete: printLeaf("Delete", logging.delete),
    RetentionPolicy: printRetention(logging.retentionDays),
  };
  return printElement("Logging", rules.loggingMembers.map((name) => members[name]).join(""));
}

function printMetrics(name: PropertyGroup, metrics: Metrics): string {
  return printElement(
    name,
    printLeaf("Version", "1.0") +
      printLeaf("Enabled", metrics.enabled) +
      (metrics.enabled ? printLeaf("IncludeAPIs", metrics.includeApis) : "") +
      printRetention(metrics.retentionDays),
  );
}

function printRetention(days: RetentionDays): string {
  return printElement(
    "RetentionPolicy",
    printLeaf("Enabled", days !== null) + (days === null ? "" : printLeaf("Days", days)),
  );
}

function printStaticWebsite(website: StaticWebsite): string {
  const { indexDocument, errorDocument404Path, defaultIndexDocumentPath } = website;
  return printElement(
    "StaticWebsite",
    printLeaf("Enabled", website.enabled) +
      printOptional("IndexDocument", indexDocument) +
      printOptional("ErrorDocument404Path", errorDocument404Path) +
      printOptional("DefaultIndexDocumentPath", defaultIndexDocumentPath),
  );
}

function printOptional(name: string, text: string | undefined): string {
  return text === undefined ? "" : printLeaf(name, text);
}
