import { ServiceError } from "@rowhouse/protocol/errors";
import { EngineError } from "../engine/engine.ts";

/** The only place where an error from outside the services becomes one that the client may see. */
export function toServiceError(error: unknown): ServiceError {
  if (error instanceof ServiceError) return error;
  // A percent-escape that is not UTF-8, found only when the path or a parameter is decoded.
  if (error instanceof URIError)
    return new ServiceError("RequestUrlFailedToParse", { cause: error });
  if (error instanceof EngineError) {
    switch (error.code) {
      case "Unavailable":
      case "Closed":
        return new ServiceError("ServerBusy", { cause: error });
      // The write may have been applied. The client's retry is decided by its own condition.
      case "Unknown":
        return new ServiceError("OperationTimedOut", { cause: error });
      // Keys are bounded before they reach an engine, so one that still does not fit is the client's fault.
      case "KeyTooLong":
        return new ServiceError("PropertyValueTooLarge", { cause: error });
      case "Corrupt":
        return new ServiceError("StoredDataDamaged", { cause: error });
    }
  }
  // A bug.
  return new ServiceError("InternalError", { cause: error });
}
