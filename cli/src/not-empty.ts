import { InvalidArgumentError } from "commander";

/** Refuses an empty value, which is usually an unset variable of a script, not a folder, file or host. */
export function notEmpty(text: string): string {
  if (text !== "") return text;
  throw new InvalidArgumentError("It must not be empty.");
}
