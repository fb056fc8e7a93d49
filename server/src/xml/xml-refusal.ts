import { type ErrorDetail, ServiceError } from "@rowhouse/protocol/errors";

/** Why a document is refused, in the codes the three services share. The details name the place. */

/** Not XML, or not the document that was asked for. */
export function invalidXml(reason: string, place?: { line: number; column: number }): ServiceError {
  const where: ErrorDetail[] = place
    ? [
        ["LineNumber", String(place.line)],
        ["LinePosition", String(place.column)],
      ]
    : [];
  return new ServiceError("InvalidXmlDocument", { details: [...where, ["Reason", reason]] });
}

/** The element stands where it may, but holds what it must not. */
export function invalidNodeValue(name: string, value: string, reason: string): ServiceError {
  return new ServiceError("InvalidXmlNodeValue", {
    details: [
      ["XmlNodeName", name],
      ["XmlNodeValue", value.slice(0, VALUE_LENGTH_SHOWN)],
      ["Reason", reason],
    ],
  });
}

/** An element that is missing or unknown, by the code its service uses for that. */
export function wrongNode(
  code: "InvalidXmlDocument" | "MissingRequiredXmlNode" | "UnsupportedXmlNode",
  name: string,
): ServiceError {
  if (code === "InvalidXmlDocument")
    return invalidXml(`The element ${name} is missing or misplaced.`);
  return new ServiceError(code, { details: [["XmlNodeName", name]] });
}

const VALUE_LENGTH_SHOWN = 256;
