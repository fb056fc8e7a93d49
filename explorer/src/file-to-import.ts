import { signal } from "@preact/signals";

/** A file that was chosen before its table was there: the table's screen begins with it. */
export const fileToImport = signal<File | undefined>(undefined);

/** `People` for `people (1).csv`: what a table may be called. */
export function tableNameOf(fileName: string): string {
  const letters = fileName.replace(/\.[^.]*$/, "").replace(/[^A-Za-z0-9]/g, "");
  const name = letters.replace(/^[0-9]+/, "").slice(0, 63);
  return name.length < 3 ? `Table${letters}` : name[0]!.toUpperCase() + name.slice(1);
}
