/** An invalid setting. The message says what was found and what is allowed, never a secret. */
export class SettingsError extends Error {
  constructor(message: string, options?: { cause?: unknown }) {
    super(message, options);
    this.name = "SettingsError";
  }
}

/**
 * One object of a configuration file, read member by member. Each reader throws SettingsError if
 * the member has another form; `end` refuses members that were never read, mostly misspelled ones.
 */
export class SettingsSection {
  /** Its name in messages: `bearer.issuers[0]`. */
  readonly path: string;
  readonly #members: ReadonlyMap<string, unknown>;
  readonly #asked = new Set<string>();

  constructor(value: unknown, path: string) {
    if (typeof value !== "object" || value === null || Array.isArray(value)) {
      throw new SettingsError(`${path} is ${formOf(value)}; an object is expected.`);
    }
    this.path = path;
    this.#members = new Map(Object.entries(value));
  }

  text(name: string): string {
    const value = this.optionalText(name);
    if (value === undefined) throw this.#unexpected(name, undefined, TEXT);
    return value;
  }

  optionalText(name: string): string | undefined {
    const value = this.value(name);
    if (value === undefined || (typeof value === "string" && value !== "")) return value;
    throw this.#unexpected(name, value, TEXT);
  }

  flag(name: string): boolean {
    const value = this.value(name) ?? false;
    if (typeof value !== "boolean") throw this.#unexpected(name, value, "true or false");
    return value;
  }

  /** An integer of at least `min`. */
  optionalNumber(name: string, min: number): number | undefined {
    const value = this.value(name);
    if (value === undefined) return undefined;
    if (typeof value === "number" && Number.isSafeInteger(value) && value >= min) return value;
    throw this.#unexpected(name, value, `a whole number of at least ${min}`);
  }

  optionalTexts(name: string): string[] | undefined {
    const value = this.value(name);
    if (value === undefined) return undefined;
    if (Array.isArray(value)) {
      const texts = value.filter((item) => typeof item === "string" && item !== "");
      if (texts.length === value.length) return texts;
    }
    throw this.#unexpected(name, value, "a list of non-empty strings");
  }

  /** A list of objects; absent means empty. */
  sections(name: string): SettingsSection[] {
    const value = this.value(name) ?? [];
    if (!Array.isArray(value)) throw this.#unexpected(name, value, "a list");
    return value.map((item, index) => new SettingsSection(item, `${this.path}.${name}[${index}]`));
  }

  value(name: string): unknown {
    this.#asked.add(name);
    return this.#members.get(name);
  }

  end(): void {
    const unknown = [...this.#members.keys()].filter((name) => !this.#asked.has(name));
    if (unknown.length === 0) return;
    const known = [...this.#asked].join(", ");
    throw new SettingsError(`${this.path} has ${unknown.join(", ")}; allowed are ${known}.`);
  }

  #unexpected(name: string, value: unknown, expected: string): SettingsError {
    return new SettingsError(`${this.path}.${name} is ${formOf(value)}; ${expected} is expected.`);
  }
}

const TEXT = "a non-empty string";

/** Describes a value without showing it. */
function formOf(value: unknown): string {
  if (value === undefined) return "missing";
  if (value === null || value === "") return value === null ? "null" : "empty";
  if (Array.isArray(value)) return "a list";
  return typeof value === "object" ? "an object" : `a ${typeof value}`;
}
