import type { DocumentRules } from "./document-rules.ts";
import type { XmlElement } from "./read-xml.ts";
import { invalidNodeValue, invalidXml, wrongNode } from "./xml-refusal.ts";

/**
 * The children of an element without text of its own, in any order, each at most once. The accessor
 * used for a member decides whether it is required.
 */
export class Members<Name extends string> {
  readonly #element: XmlElement;
  readonly #rules: DocumentRules;
  readonly #byName = new Map<string, XmlElement>();

  /** @throws ServiceError if the element contains anything but the named members. */
  constructor(element: XmlElement, names: readonly Name[], rules: DocumentRules) {
    checkElementsOnly(element);
    const known: readonly string[] = names;
    for (const child of element.children) {
      if (!known.includes(child.name)) throw wrongNode(rules.unknownNode, child.name);
      if (this.#byName.has(child.name)) throw invalidXml(`${child.name} is given twice.`);
      this.#byName.set(child.name, child);
    }
    this.#element = element;
    this.#rules = rules;
  }

  optional(name: Name): XmlElement | undefined {
    return this.#byName.get(name);
  }

  required(name: Name): XmlElement {
    const member = this.#byName.get(name);
    if (member === undefined) {
      throw wrongNode(this.#rules.missingNode, `${this.#element.name}/${name}`);
    }
    return member;
  }

  text(name: Name): string {
    return leafText(this.required(name));
  }

  boolean(name: Name): boolean {
    return booleanOf(this.required(name));
  }
}

export function checkElementsOnly(element: XmlElement): void {
  const hasText = element.children.length === 0 ? element.text.trim() !== "" : element.mixed;
  if (hasText) throw invalidXml(`${element.name} contains text; elements are expected.`);
}

/** The text of an element without children, trimmed. */
export function leafText(element: XmlElement): string {
  if (element.children.length > 0) {
    throw invalidXml(`${element.name} contains elements; text is expected.`);
  }
  return element.text.trim();
}

/** Case-insensitive: Python's clients wrote True and False until 2019. */
export function booleanOf(element: XmlElement): boolean {
  const text = leafText(element);
  const lower = text.toLowerCase();
  if (lower !== "true" && lower !== "false") {
    throw invalidNodeValue(element.name, text, "true or false is expected.");
  }
  return lower === "true";
}
