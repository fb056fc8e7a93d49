import { isAboutRequest, PortError } from "./port-error.ts";

interface RestFailure {
  readonly statusCode?: number;
  readonly code?: string;
  readonly message?: string;
  readonly details?: { readonly errorCode?: string };
  readonly response?: { readonly headers: { get(name: string): string | undefined } };
}

/** For the queue and blob clients: the layers above repeat, because they must know that they did. */
export const singleTry = { retryOptions: { maxTries: 1 } } as const;

/** What these clients answer or throw, as the ports promise it. */
export function asked<Answer>(request: Promise<Answer>): Promise<Answer> {
  return request.catch((error) => {
    throw storageError(error);
  });
}

function storageError(error: unknown): unknown {
  if (!isAboutRequest(error)) return error;
  const failure: RestFailure = typeof error === "object" && error !== null ? error : {};
  const headers = failure.response?.headers;
  const retryAfterS = Number(headers?.get("retry-after"));
  return new PortError(failure.message ?? "The request failed.", {
    status: failure.statusCode ?? 0,
    code:
      headers?.get("x-ms-error-code") ?? failure.details?.errorCode ?? failure.code ?? "Unknown",
    ...(retryAfterS > 0 && { retryAfterMs: retryAfterS * 1000 }),
    cause: error,
  });
}
