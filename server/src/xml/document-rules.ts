/**
 * Where the three services' documents differ; everything else about them exists once.
 * Sources: "Set Table Service Properties", "Set Queue Service Properties", "Set Blob Service
 * Properties", "Set Table ACL", "Set Queue ACL", "Set Container ACL".
 */
export interface DocumentRules {
  readonly unknownNode: "InvalidXmlDocument" | "UnsupportedXmlNode";
  readonly missingNode: "InvalidXmlDocument" | "MissingRequiredXmlNode";
  readonly wrongRetentionDays: "InvalidXmlDocument" | "InvalidXmlNodeValue";

  /** The groups of the service properties, and members whose order differs, in printed order. */
  readonly groups: readonly PropertyGroup[];
  readonly loggingMembers: readonly LoggingMember[];
  readonly corsMembers: readonly CorsMember[];
  /** Whether hourly metrics are on by default, kept for 7 days. */
  readonly hourMetricsByDefault: boolean;

  /** Permission letters allowed in an access policy. */
  readonly policyLetters: string;
  readonly wrongPolicyLetter: "InvalidXmlDocument" | "InvalidXmlNodeValue";
  /** Whether the times of a policy are returned as sent or with seven fraction digits. */
  readonly policyTimes: "as-sent" | "seven-digits";
  readonly wrongPolicyTime: "InvalidXmlDocument" | "InvalidXmlNodeValue";
}

/** Children of the root of service properties. */
export type PropertyGroup =
  | "Logging"
  | "HourMetrics"
  | "MinuteMetrics"
  | "Cors"
  | "DefaultServiceVersion"
  | "DeleteRetentionPolicy"
  | "StaticWebsite";

export type LoggingMember = "Version" | "Read" | "Write" | "Delete" | "RetentionPolicy";

export type CorsMember =
  | "AllowedOrigins"
  | "AllowedMethods"
  | "AllowedHeaders"
  | "ExposedHeaders"
  | "MaxAgeInSeconds";

export const TABLE_DOCUMENTS: DocumentRules = {
  unknownNode: "InvalidXmlDocument",
  missingNode: "InvalidXmlDocument",
  wrongRetentionDays: "InvalidXmlDocument",
  groups: ["Logging", "HourMetrics", "MinuteMetrics", "Cors"],
  loggingMembers: ["Version", "Read", "Write", "Delete", "RetentionPolicy"],
  corsMembers: [
    "AllowedMethods",
    "AllowedOrigins",
    "AllowedHeaders",
    "ExposedHeaders",
    "MaxAgeInSeconds",
  ],
  hourMetricsByDefault: true,
  policyLetters: "raud",
  wrongPolicyLetter: "InvalidXmlNodeValue",
  policyTimes: "seven-digits",
  wrongPolicyTime: "InvalidXmlDocument",
};

export const QUEUE_DOCUMENTS: DocumentRules = {
  unknownNode: "UnsupportedXmlNode",
  missingNode: "MissingRequiredXmlNode",
  wrongRetentionDays: "InvalidXmlNodeValue",
  groups: ["Logging", "HourMetrics", "MinuteMetrics", "Cors"],
  loggingMembers: ["Version", "Delete", "Read", "Write", "RetentionPolicy"],
  corsMembers: [
    "AllowedOrigins",
    "AllowedMethods",
    "MaxAgeInSeconds",
    "ExposedHeaders",
    "AllowedHeaders",
  ],
  hourMetricsByDefault: false,
  policyLetters: "raup",
  wrongPolicyLetter: "InvalidXmlDocument",
  policyTimes: "as-sent",
  wrongPolicyTime: "InvalidXmlNodeValue",
};

export const BLOB_DOCUMENTS: DocumentRules = {
  ...QUEUE_DOCUMENTS,
  groups: [
    "Logging",
    "HourMetrics",
    "MinuteMetrics",
    "Cors",
    "DefaultServiceVersion",
    "DeleteRetentionPolicy",
    "StaticWebsite",
  ],
  policyLetters: "racwdxltmeiyf",
};
