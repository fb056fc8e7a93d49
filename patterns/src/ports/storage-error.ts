import { isAboutRequest, PortError } from "./port-error.ts";

/** What is known of the clients' errors: the storage ones have `errorCode`, the table one `odataError`. */
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
  readonly response?: { readonly headers: { get(name: string): string | undefined } };
}

/** For the queue and blob clients: the layers above repeat, because they must know that they did. */
export const singleTry = { retryOptions: { maxTries: 1 } } as const;

/** What the clients answer or throw, as the ports promise it. */
export function asked<Answer>(request: Promise<Answer>): Promise<Answer> {
  return request.catch((error) => {
    throw portError(error);
  });
}

function portError(error: unknown): unknown {
  if (!isAboutRequest(error)) return error;
  const failure: RestFailure = typeof error === "object" && error !== null ? error : {};
  const { statusCode: status = 0, details, response } = failure;
  const odata = details?.odataError;
  const message = odata?.message?.value ?? failure.message ?? "The request failed.";
  const code =
    odata?.code ?? response?.headers.get("x-ms-error-code") ?? details?.errorCode ?? failure.code;
  const retryAfterS = Number(response?.headers.get("retry-after"));
  return new PortError(message, {
    status,
    code: code ?? "Unknown",
    // A transaction names the operation at fault: `3:The specified entity already exists.`
    index: Number(message.match(/^(\d+):/)?.[1] ?? 0),
    ...(retryAfterS > 0 && { retryAfterMs: retryAfterS * 1000 }),
    cause: error,
  });
}
