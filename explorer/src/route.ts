import { computed, signal } from "@preact/signals";
import { addressOf, type Route, readRoute } from "./route-text.ts";

const hash = signal(location.hash);
addEventListener("hashchange", () => {
  hash.value = location.hash;
});

export const route = computed<Route>(() => readRoute(hash.value));

export function go(to: Partial<Route>): void {
  location.hash = addressOf(to);
}

/** Without a step of the browser's history: a keystroke is not a place to go back to. */
export function replace(to: Partial<Route>): void {
  history.replaceState(null, "", addressOf(to));
  hash.value = location.hash;
}

/** The token of the start-up link, taken out of the address at once: it must not stay in the history. */
export function takeLink(): string | undefined {
  const [, link] = /^#link=([\w-]+)$/.exec(location.hash) ?? [];
  if (link !== undefined) replace({});
  return link;
}
