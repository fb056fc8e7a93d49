import { useSignal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { insight, ServerError } from "./session.ts";

const AGAIN_MS = 10_000;

/** What the server watched, read again every ten seconds while the page is seen. */
export function useInsight<Read>(name: "heat" | "activity"): {
  readonly value: Read | undefined;
  readonly failure: ServerError | undefined;
  again(): void;
} {
  const value = useSignal<Read | undefined>(undefined);
  const failure = useSignal<ServerError | undefined>(undefined);
  const load = async () => {
    try {
      const answer = await insight(name);
      // The server of the page answers as its version does.
      value.value = (await answer.json()) as Read;
      failure.value = undefined;
    } catch (error) {
      if (!(error instanceof ServerError)) throw error;
      failure.value = error;
    }
  };
  useEffect(() => {
    load();
    const timer = setInterval(() => {
      if (!document.hidden && failure.peek()?.code !== "InsightNeedsKey") load();
    }, AGAIN_MS);
    return () => clearInterval(timer);
  }, []);
  return { value: value.value, failure: failure.value, again: load };
}
