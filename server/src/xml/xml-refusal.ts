import { ServiceError } from "@rowhouse/protocol/errors";

/** Errors in XML documents, with the codes that the three services share. Details name the place. */

/** Not XML, or not the expected document. Line and position are 0 where they are not known. */
export function invalidXml(
  reason: string,
  { line, column } = { line: 0, column: 0 },
  cause?: unknown,
): ServiceError {
  return new ServiceError("InvalidXmlDocument", {
    cause,
    details: [
      ["LineNumber", String(line)],
      ["LinePosition", String(column)],
      ["Reason", reason],
    ],
  });
}

/** The element is allowed here, but its value is not. */
export function invalidNodeValue(name: string, value: string, reason: string): ServiceError {
  return new ServiceError("InvalidXmlNodeValue", {
    details: [
      ["XmlNodeName", name],
      ["XmlNodeValue", value.slice(0, VALUE_LENGTH_SHOWN)],
      ["Reason", reason],
    ],
  });
}

/** A missing or unknown element, with the code that its service uses for it. */
export function wrongNode(
  code: "InvalidXmlDocument" | "MissingRequiredXmlNode" | "UnsupportedXmlNode",
  name: string,
): ServiceError {
  if (code === "InvalidXmlDocument")
    return invalidXml(`The element ${name} is missing or misplaced.`);
  return new ServiceError(code, { details: [["XmlNodeName", name]] });
}

const VALUE_LENGTH_SHOWN = 256;
