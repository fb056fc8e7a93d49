import type { DocumentRules } from "./document-rules.ts";
import type { XmlElement } from "./read-xml.ts";
import { invalidNodeValue, invalidXml, wrongNode } from "./xml-refusal.ts";

/**
 * The children of an element that holds no text of its own, in any order and each at most once.
 * Asking for a member by name settles whether it is required; names never asked for are not known.
 */
export class Members<Name extends string> {
  readonly #element: XmlElement;
  readonly #rules: DocumentRules;
  readonly #byName = new Map<string, XmlElement>();

  /** @throws ServiceError when anything but the members named stands in the element. */
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
  if (hasText) throw invalidXml(`Text stands in ${element.name}, where elements are expected.`);
}

/** The text of an element without children, white space around it removed. */
export function leafText(element: XmlElement): string {
  if (element.children.length > 0) {
    throw invalidXml(`Elements stand in ${element.name}, where text is expected.`);
  }
  return element.text.trim();
}

/** In any case: Python's clients wrote True and False until 2019. */
export function booleanOf(element: XmlElement): boolean {
  const text = leafText(element);
  const lower = text.toLowerCase();
  if (lower !== "true" && lower !== "false") {
    throw invalidNodeValue(element.name, text, "true or false is expected.");
  }
  return lower === "true";
}
