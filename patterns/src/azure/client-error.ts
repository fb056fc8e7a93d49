import { NO_CONNECTION, PortError } from "../ports/port-error.ts";

/** The known parts of the clients' errors: the storage ones have `errorCode`, the table one `odataError`. */
interface RestFailure {
  readonly statusCode?: number;
  readonly code?: string;
  readonly message?: string;
  readonly details?: {
    readonly errorCode?: string;
    readonly odataError?: {
      readonly code?: string;
      readonly message?: { readonly value?: string };
    };
  };
  readonly request?: { readonly url?: string };
  readonly response?: { readonly headers: { get(name: string): string | undefined } };
}

/** For the queue and blob clients: the layers above retry, because they must know that they did. */
export const singleTry = { retryOptions: { maxTries: 1 } } as const;

/** The answer, or instead of a client's error the one that the ports promise. */
export function withPortErrors<Answer>(request: Promise<Answer>): Promise<Answer> {
  return request.catch((error) => {
    throw portError(error);
  });
}

function portError(error: unknown): unknown {
  if (!isAboutRequest(error)) return error;
  const failure: RestFailure = typeof error === "object" && error !== null ? error : {};
  const { statusCode: status = 0, details, response, request } = failure;
  const odata = details?.odataError;
  const code =
    odata?.code ?? response?.headers.get("x-ms-error-code") ?? details?.errorCode ?? failure.code;
  const retryAfterS = Number(response?.headers.get("retry-after"));
  const said = odata?.message?.value ?? (failure.message || "The request failed.");
  const isUnconnected = status === 0 && NO_CONNECTION.test(code ?? "");
  const message = isUnconnected ? `No connection to ${addressOf(request)}: ${said}` : said;
  return new PortError(message, {
    status,
    code: code ?? "Unknown",
    // A transaction's message names the failing operation: `3:The specified entity already exists.`
    index: Number(message.match(/^(\d+):/)?.[1] ?? 0),
    ...(retryAfterS > 0 && { retryAfterMs: retryAfterS * 1000 }),
    cause: error,
  });
}

/** Where a request was sent, without its query, which may be signed. */
function addressOf(request: RestFailure["request"]): string {
  try {
    return new URL(request?.url ?? "").origin;
  } catch {
    return "the endpoint";
  }
}

/** Socket errors of a user's own transport: `ECONNRESET`, `ENOTFOUND`, …. */
const NETWORK = /^E(?!RR_)[A-Z_]+$|^ERR_(STREAM|SOCKET)_/;
/** Connection failures that a retry does not change: certificates, the wrong protocol. */
const HOPELESS = /CERT|ERR_TLS|ERR_SSL|EPROTO|UNABLE_TO_/;

/**
 * Whether a client threw this because a request was answered or got no answer. Anything else, such as an option
 * that the client refuses, is not about the request: it passes through and is not retried.
 */
function isAboutRequest(error: unknown): boolean {
  if (typeof error !== "object" || error === null) return false;
  const { name, code, statusCode } = error as Partial<
    Record<"name" | "code" | "statusCode", unknown>
  >;
  if (typeof statusCode === "number") return true;
  // We abort only requests that get no answer.
  const isNetwork = /^(Rest|Abort)Error$/.test(String(name)) || NETWORK.test(String(code));
  return isNetwork && !HOPELESS.test(String(code));
}
