import { ServiceError } from "@rowhouse/protocol/errors";
import { EngineError } from "../engine/engine.ts";

/** The only place where an error below or beside the services becomes one the client may see. */
export function toServiceError(error: unknown): ServiceError {
  if (error instanceof ServiceError) return error;
  // A percent-escape that is no UTF-8: found lazily, wherever the path or a parameter is decoded.
  if (error instanceof URIError)
    return new ServiceError("RequestUrlFailedToParse", { cause: error });
  if (error instanceof EngineError) {
    switch (error.code) {
      case "Unavailable":
      case "Closed":
        return new ServiceError("ServerBusy", { cause: error });
      // The write may have happened. A retry by the client judges itself by its own condition.
      case "Unknown":
        return new ServiceError("OperationTimedOut", { cause: error });
      // Keys are bounded before they reach an engine; one that still does not fit is the caller's.
      case "KeyTooLong":
        return new ServiceError("PropertyValueTooLarge", { cause: error });
    }
  }
  // What is stored is damaged, or this is a bug.
  return new ServiceError("InternalError", { cause: error });
}
