import type { RequestRecord } from "../wire/observer.ts";

/** The outcome of a request, in the words of the analytics log. */
export type Outcome =
  | "Success"
  | "ThrottlingError"
  | "ServerTimeoutError"
  | "ClientOtherError"
  | "ServerOtherError"
  | "AuthorizationError";

export function outcomeOf({ status, errorCode }: RequestRecord): Outcome {
  if (status < 400) return "Success";
  if (status === 401 || status === 403) return "AuthorizationError";
  if (status < 500) return "ClientOtherError";
  if (errorCode === "ServerBusy") return "ThrottlingError";
  return errorCode === "OperationTimedOut" ? "ServerTimeoutError" : "ServerOtherError";
}

/** The caller: with a key or token, anonymous, or with a shared access signature. */
export function callerOf({ caller }: RequestRecord): "" | "Anonymous" | "SAS" {
  if (caller === "anonymous") return "Anonymous";
  return caller === "account-sas" || caller === "service-sas" ? "SAS" : "";
}
