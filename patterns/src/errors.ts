/** What can go wrong, each code with its payload. A code never changes its meaning. */
export interface TableErrorPayloads {
  /** Another entity holds the value. `index` is "key" when the entity itself already exists. */
  "unique-violation": { readonly index: string; readonly key: string; readonly owner: unknown };
  /** The stored entity is not the one that was read. */
  conflict: { readonly key: string };
  "contention-exhausted": { readonly key: string; readonly attempts: number };
  "not-found": { readonly table: string; readonly key: string };
  "key-too-long": { readonly key: string; readonly length: number; readonly limit: number };
  "entity-too-large": {
    readonly bytes: number;
    readonly limit: number;
    readonly remedy: string;
  };
  "batch-too-large": { readonly operations: number; readonly bytes: number };
  "scan-not-permitted": { readonly plan: string; readonly filter: string };
  "unsupported-by-profile": { readonly profile: string; readonly feature: string };
  "index-not-readable": { readonly index: string; readonly state: string };
  "validation-failed": { readonly issues: readonly Issue[] };
  /** The request may or may not have taken effect, and no stored row shows which. */
  "ambiguous-outcome": { readonly key: string; readonly token: string };
  throttled: { readonly attempts: number };
  /** A worker set the message aside: it failed too often, or it cannot succeed. */
  "poison-message": { readonly queue: string; readonly id: string; readonly dequeueCount: number };
  /** A definition that would sort wrongly, exceed a limit or scan silently. */
  "invalid-definition": { readonly issues: readonly Issue[] };
}

export interface Issue {
  /** The field, segment or index concerned. */
  readonly path: string;
  readonly message: string;
}

export type TableErrorCode = keyof TableErrorPayloads;

/** Used when the code that throws gives no remedy. Refused definitions and values state theirs in each issue. */
const REMEDIES: Partial<Record<TableErrorCode, string>> = {
  "unique-violation": "choose another value, or update that entity.",
  conflict: "read the entity again and repeat the change.",
  "contention-exhausted": "spread the writes, or allow more attempts.",
  "not-found": "check the key, or insert the entity first.",
  "key-too-long": 'shorten the value, or declare the segment with overflow: "hash".',
  "batch-too-large": "split the work, or use a batch in mode chunked.",
  "ambiguous-outcome": "read the entity to see whether it has the change.",
  throttled: "lower the rate, or spread the load over more partitions.",
};

class TypedError<Code extends TableErrorCode> extends Error {
  readonly code: Code;

  constructor(code: Code, message: string, options: TableErrorOptions) {
    const remedy = options.remedy ?? REMEDIES[code];
    super(remedy ? `${message}\n  Remedy: ${remedy}` : message, { cause: options.cause });
    this.name = `TableError[${code}]`;
    this.code = code;
  }
}

export interface TableErrorOptions {
  /** One line. Default: the usual remedy for the code. */
  readonly remedy?: string;
  readonly cause?: unknown;
}

/** The library's only error type. The payload of its code is on the error itself. */
export type TableError<Code extends TableErrorCode = TableErrorCode> = Code extends TableErrorCode
  ? Error & { readonly code: Code } & TableErrorPayloads[Code]
  : never;

export function tableError<Code extends TableErrorCode>(
  code: Code,
  message: string,
  payload: TableErrorPayloads[Code],
  options: TableErrorOptions = {},
): Error & { readonly code: Code } & TableErrorPayloads[Code] {
  return Object.assign(new TypedError(code, message, options), payload);
}

/** The error for a value refused for one reason. */
export function validationFailed(subject: string, path: string, message: string): Error {
  return refused("validation-failed", subject, [{ path, message }]);
}

/** The error for a definition refused for one reason. */
export function definitionRefused(subject: string, path: string, message: string): Error {
  return refused("invalid-definition", subject, [{ path, message }]);
}

/** The error for a refusal with all its issues. */
export function refused(
  code: "validation-failed" | "invalid-definition",
  subject: string,
  issues: readonly Issue[],
): Error {
  const list = issues.map(({ path, message }) => `${path}: ${message}`).join("; ");
  return tableError(code, `${subject} is refused: ${list}.`, { issues });
}

/**
 * Checks that each of `numbers` is a multiple of `step` from `min` to `max`, both included; by default a whole
 * number from 1. Step 0 accepts fractions.
 * @throws validation-failed, or the error that `refuse` returns.
 */
export function assertSome(
  subject: string,
  numbers: Readonly<Record<string, unknown>>,
  refuse: typeof validationFailed = validationFailed,
  max = Number.POSITIVE_INFINITY,
  min = 1,
  step = 1,
): void {
  for (const [path, value] of Object.entries(numbers)) {
    if (typeof value !== "number" || !(value >= min && value <= max) || value % step > 0) {
      throw refuse(
        subject,
        path,
        `${value} is not a${step ? " whole" : ""} number from ${min} to ${max}`,
      );
    }
  }
}

/** The same for any number from `min` to `max`, fractions included. */
export function assertBetween(
  subject: string,
  numbers: Readonly<Record<string, unknown>>,
  min: number,
  max?: number,
  refuse?: typeof validationFailed,
): void {
  assertSome(subject, numbers, refuse, max, min, 0);
}

/** The reason for a thrown value, as one sentence. */
export function reasonOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}

/** Whether the library threw `error`, with this code if one is given. The compiler then knows its payload. */
export function isTableError(error: unknown): error is TableError;
export function isTableError<Code extends TableErrorCode>(
  error: unknown,
  code: Code,
): error is TableError<Code>;
export function isTableError(error: unknown, code?: TableErrorCode): boolean {
  return error instanceof TypedError && (code === undefined || error.code === code);
}
