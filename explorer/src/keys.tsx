import { signal } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";
import { go } from "./route.ts";
import { type ScreenName, screenAddress } from "./route-text.ts";

export const keysAreShown = signal(false);

const KEYS: readonly (readonly [keys: string, what: string])[] = [
  ["/", "go to the filter"],
  ["Ctrl Enter", "run the query, from anywhere on the screen"],
  ["Esc", "stop the query, or close what is open"],
  ["e", "show or hide how the query is answered"],
  ["← ↑ → ↓", "move in the grid"],
  ["Home, End", "first and last column; with Ctrl, first and last row"],
  ["Page Up, Page Down", "a screen of rows"],
  ["Enter, F2", "open the entity, to edit it"],
  ["Space", "choose the row; Shift with ↑ ↓ chooses more"],
  ["Delete", "stage the deletion of the chosen rows"],
  ["n", "a new entity"],
  ["Ctrl S", "save what is staged: shows what will be sent"],
  ["Ctrl Z", "take the last staged change back, or undo the last save"],
  ["Ctrl C", "copy the cell, or the chosen rows as JSON"],
  ["g t", "go to the tables"],
  [
    "g q, g b, g h, g a, g d, g s, g p",
    "go to queues, blobs, heat map, activity, advisor, signatures, playground",
  ],
  ["0", "the whole heat map; in it, arrows move, Shift and arrows select, Enter zooms in"],
  ["s, r, x", "in the playground: a step, run on, crash"],
  ["?", "this list"],
];

const SCREEN_KEYS: Readonly<Record<string, ScreenName>> = {
  gq: "queues",
  gb: "blobs",
  gh: "heat",
  ga: "activity",
  gd: "advisor",
  gs: "sas",
  gp: "playground",
};

/** What screens do at a key, by the name that `commandOf` gives. */
const commands = new Map<string, () => void>();

/** Registers what a screen does for a key, until it is left. */
export function useCommand(name: string, run: () => void): void {
  const latest = useRef(run);
  latest.current = run;
  useEffect(() => {
    const command = () => latest.current();
    commands.set(name, command);
    return () => {
      if (commands.get(name) === command) commands.delete(name);
    };
  }, [name]);
}

/** @returns a function that stops listening */
export function listenForKeys(): () => void {
  let before = "";
  const listen = (event: KeyboardEvent) => {
    const { target, key } = event;
    const writes = target instanceof Element && target.matches("input, textarea, select");
    const isRun = key === "Enter" && (event.ctrlKey || event.metaKey);
    if (isRun || key === "Escape") {
      // An open list or dialog takes the key first.
      if (event.defaultPrevented) return;
      commands.get(isRun ? "run" : "stop")?.();
      return;
    }
    if ((event.ctrlKey || event.metaKey) && !event.altKey) {
      // In a field, Ctrl Z takes back what was typed.
      const name = key === "s" ? "save" : key === "z" && !writes ? "undo" : "";
      const command = commands.get(name);
      if (!command || event.defaultPrevented) return;
      event.preventDefault();
      if (!document.querySelector("dialog[open]")) command();
      return;
    }
    if (writes || event.ctrlKey || event.metaKey || event.altKey) return;
    const word = before === "g" ? `g${key}` : key;
    before = key;
    const screen = SCREEN_KEYS[word];
    if (word === "gt") go({});
    else if (screen) location.hash = screenAddress(screen);
    else if (key === "?") keysAreShown.value = true;
    else if (key === "/") commands.get("filter")?.();
    else if (key === "e") commands.get("explain")?.();
    else if (commands.has(`key ${key}`)) commands.get(`key ${key}`)?.();
    else return;
    event.preventDefault();
  };
  document.addEventListener("keydown", listen);
  return () => document.removeEventListener("keydown", listen);
}

export function KeysDialog() {
  const dialog = useRef<HTMLDialogElement>(null);
  const isShown = keysAreShown.value;
  useEffect(() => {
    if (isShown) dialog.current?.showModal();
    else dialog.current?.close();
  }, [isShown]);
  return (
    <dialog
      ref={dialog}
      aria-labelledby="keys-title"
      onClose={() => {
        keysAreShown.value = false;
      }}
    >
      <h2 id="keys-title">Keys</h2>
      <table class="keys">
        <tbody>
          {KEYS.map(([keys, what]) => (
            <tr key={keys}>
              <th scope="row">
                <kbd>{keys}</kbd>
              </th>
              <td>{what}</td>
            </tr>
          ))}
        </tbody>
      </table>
      <form method="dialog">
        <button type="submit" class="primary">
          Close
        </button>
      </form>
    </dialog>
  );
}
