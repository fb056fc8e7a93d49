import { InvalidArgumentError } from "commander";

/** An empty text is a variable of a script that nobody set: no folder, no file and no host. */
export function notEmpty(text: string): string {
  if (text !== "") return text;
  throw new InvalidArgumentError("It is empty.");
}
