import { EngineError } from "../engine.ts";
import { type Fault, ServerError } from "./sql-state.ts";

/** How an exchange that writes ended. Only "done" promises that the write was committed. */
export type Outcome =
  | { readonly kind: "done" }
  /** The server refused. Before its COMMIT nothing has happened; at the COMMIT something may have. */
  | { readonly kind: "failed"; readonly error: ServerError; readonly mayHaveHappened: boolean }
  /** No answer came, or none that can be trusted. If nothing was sent, nothing happened. */
  | { readonly kind: "lost"; readonly error: Error; readonly isSent: boolean };

/** The error that the services receive when nothing happened. */
export function toEngineError(error: unknown): Error {
  if (error instanceof EngineError) return error;
  if (!(error instanceof ServerError)) {
    const text = error instanceof Error ? error.message : String(error);
    return new EngineError("Unavailable", `The database cannot be reached: ${text}`, {
      cause: error,
    });
  }
  const { fault, sqlState, message } = error;
  const text = `${EXPLANATIONS[fault] ?? "The database refused the request"}: ${message} (SQLSTATE ${sqlState}).`;
  if (fault === "corrupt") return new EngineError("Corrupt", text, { cause: error });
  if (fault === "keyTooLong") return new EngineError("KeyTooLong", text, { cause: error });
  // Not an EngineError: a statement of ours that the server does not understand is a bug.
  if (fault === "bug") return new Error(text, { cause: error });
  return new EngineError("Unavailable", text, { cause: error });
}

/** Whether waiting can help: a server that is starting, failing over or full will accept us later. */
export function isTransient(error: unknown): boolean {
  if (error instanceof EngineError) return error.code === "Unavailable" && isTransient(error.cause);
  return !(error instanceof ServerError) || !LASTING.has(error.fault);
}

const LASTING: ReadonlySet<Fault> = new Set(["config", "corrupt", "bug", "keyTooLong"]);

const EXPLANATIONS: Partial<Record<Fault, string>> = {
  retry: "The database is busy with requests that conflict with this one",
  check: "The database is busy with requests that conflict with this one",
  busy: "The database is busy",
  standby: "This database server does not accept writes",
  config: "The operator must correct the database or its configuration",
  corrupt: "The database reports damaged data",
  bug: "The database does not understand a statement of Rowhouse",
};
