import { useSignal } from "@preact/signals";
import { useEffect } from "preact/hooks";

/**
 * What is loaded when it is first needed: a part of the page that not everybody uses.
 * @param load always the same function
 */
export function useLater<Loaded>(load: () => Promise<Loaded>): {
  readonly loaded: Loaded | undefined;
  readonly failure: string;
} {
  const state = useSignal<{ loaded: Loaded | undefined; failure: string }>({
    loaded: undefined,
    failure: "",
  });
  useEffect(() => {
    load().then(
      (loaded) => {
        state.value = { loaded, failure: "" };
      },
      () => {
        const failure = "This part of the page could not be loaded. Is the server still running?";
        state.value = { loaded: undefined, failure };
      },
    );
  }, [load, state]);
  return state.value;
}
