export interface PortErrorDetail {
  /** 0 when no answer came. */
  readonly status: number;
  /** The service's error code, or what the transport calls its failure. */
  readonly code: string;
  /** The position of the mutation that made a transaction fail. */
  readonly index?: number;
  readonly retryAfterMs?: number;
  readonly cause?: unknown;
}

/** A request that was refused or got no answer. What it means is for the layers above to say. */
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

export function isRefusal(error: unknown, ...statuses: number[]): error is PortError {
  return error instanceof PortError && statuses.includes(error.status);
}
