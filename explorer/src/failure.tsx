import type { ServerError } from "./session.ts";

/** What the server answered instead of a success, as it is. */
export function Failure({ error, again }: { error: ServerError; again?: () => void }) {
  return (
    <div class="error" role="alert">
      <p>
        <strong>{error.status === 0 ? "No answer" : `${error.status} ${error.code}`}</strong>
      </p>
      <p>{error.message}</p>
      {again && (
        <button type="button" onClick={again}>
          Try again
        </button>
      )}
    </div>
  );
}
