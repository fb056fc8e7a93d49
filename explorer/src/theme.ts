import { signal } from "@preact/signals";

const THEMES = ["auto", "light", "dark"] as const;
export type Theme = (typeof THEMES)[number];
const STORED = "rowhouse.theme";

/** auto: as the system. */
export const theme = signal<Theme>("auto");

export function restoreTheme(): void {
  setTheme(THEMES.find((each) => each === localStorage.getItem(STORED)) ?? "auto");
}

export function nextTheme(): void {
  setTheme(THEMES[(THEMES.indexOf(theme.value) + 1) % THEMES.length]!);
}

function setTheme(chosen: Theme): void {
  theme.value = chosen;
  localStorage.setItem(STORED, chosen);
  document.documentElement.style.colorScheme = chosen === "auto" ? "light dark" : chosen;
}
