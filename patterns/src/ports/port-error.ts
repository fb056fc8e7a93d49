export interface PortErrorDetail {
  /** 0 when there was no answer. */
  readonly status: number;
  /** The service's error code, or the transport's name for its failure. */
  readonly code: string;
  /** The position of the mutation that made a transaction fail. */
  readonly index?: number;
  readonly retryAfterMs?: number;
  readonly cause?: unknown;
}

/** A request that was refused or got no answer. The layers above decide what that means. */
export class PortError extends Error {
  readonly status: number;
  readonly code: string;
  readonly index: number;
  readonly retryAfterMs: number | undefined;

  constructor(message: string, detail: PortErrorDetail) {
    super(message, { cause: detail.cause });
    this.name = "PortError";
    this.status = detail.status;
    this.code = detail.code;
    this.index = detail.index ?? 0;
    this.retryAfterMs = detail.retryAfterMs;
  }
}

/** The request was not sent: its deadline had passed. */
export function tooLate(): PortError {
  return new PortError("The request was not sent before its deadline.", {
    status: 408,
    code: TOO_LATE,
  });
}

export function isTooLate(error: unknown): boolean {
  return error instanceof PortError && error.code === TOO_LATE;
}

const TOO_LATE = "TooLate";

/** The codes of a request that did not reach a server: none listens there, or there is no such name or network. */
export const NO_CONNECTION =
  /^(ECONNREFUSED|ENOTFOUND|EAI_AGAIN|E(HOST|NET)UNREACH|EADDRNOTAVAIL)$/;

/** The service gave up on a request after 30 s, because it was busy. */
const TIMED_OUT = "OperationTimedOut";

export function isRefusal(error: unknown, ...statuses: number[]): error is PortError {
  return error instanceof PortError && statuses.includes(error.status);
}

/** The same for refusals of something in an existing table or container that is not being deleted. */
export function isRefusalInside(error: unknown, ...statuses: number[]): error is PortError {
  return (
    isRefusal(error, ...statuses) && !/^(Table|Container)(NotFound|BeingDeleted)$/.test(error.code)
  );
}

/** Undefined when the request is refused with one of these statuses. */
export async function unlessRefused<Answer>(
  request: Promise<Answer>,
  ...statuses: number[]
): Promise<Answer | undefined> {
  try {
    return await request;
  } catch (error) {
    if (!isRefusal(error, ...statuses)) throw error;
    return undefined;
  }
}

/** The service asks for fewer requests. */
export function isPushback(error: unknown): error is PortError {
  return isRefusal(error, 429, 503) || (isRefusal(error, 500) && error.code === TIMED_OUT);
}
