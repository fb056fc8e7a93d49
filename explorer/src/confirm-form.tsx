import { useSignal } from "@preact/signals";
import type { ComponentChildren } from "preact";

/** A form for what cannot be undone: its button works once a word was typed. */
export function ConfirmForm({
  word,
  verb,
  isOff,
  work,
  back,
  backWord,
  children,
}: {
  word: string;
  /** On the button. */
  verb: string;
  /** Whether nothing can be done now. */
  isOff: boolean;
  work: () => void;
  back: () => void;
  backWord: string;
  /** Between the field and the buttons. */
  children?: ComponentChildren;
}) {
  const typed = useSignal("");
  return (
    <form
      onSubmit={(event) => {
        event.preventDefault();
        if (typed.value === word && !isOff) work();
      }}
    >
      <label>
        <span>
          Type <strong>{word}</strong> to confirm
        </span>
        <input
          value={typed.value}
          spellcheck={false}
          autocomplete="off"
          onInput={(event) => {
            typed.value = event.currentTarget.value;
          }}
        />
      </label>
      {children}
      <div class="buttons">
        <button type="button" onClick={back}>
          {backWord}
        </button>
        <button type="submit" class="danger" disabled={typed.value !== word || isOff}>
          {verb}
        </button>
      </div>
    </form>
  );
}
