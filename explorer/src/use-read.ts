import { useSignal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { ServerError } from "./session.ts";

/** What is read when a screen is shown, and again when `again` is called. @param about reads anew when it changes */
export function useRead<Read>(
  read: () => Promise<Read>,
  about: string,
): {
  readonly value: Read | undefined;
  readonly failure: ServerError | undefined;
  again(): Promise<void>;
} {
  const state = useSignal<{ value?: Read; failure?: ServerError; about?: string }>({});
  const load = async () => {
    try {
      state.value = { value: await read(), about };
    } catch (error) {
      if (!(error instanceof ServerError)) throw error;
      const { value, about: known } = state.peek();
      state.value = { failure: error, ...(known === about && value !== undefined && { value }) };
    }
  };
  useEffect(() => {
    load();
  }, [about]);
  const { value, failure } = state.value;
  return { value, failure, again: load };
}
