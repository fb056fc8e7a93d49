import { ERROR_TEXTS, ERRORS } from "@rowhouse/protocol/errors";

/** The manual's page of errors, generated from the table that the server uses. */
export function errorsPage(): string {
  const rows = Object.entries(ERRORS).map(
    ([code, [status, message]]) => `| \`${code}\` | ${status} | ${escapeCell(message)} |`,
  );
  const texts = Object.values(ERROR_TEXTS).map((text) => `- ${escapeCell(text)}`);
  return [
    "# Errors",
    "",
    "<!-- Made by `npm run errors-page` from protocol/src/errors.ts; a test compares the two. -->",
    "",
    "Every code the server can answer, with its status and the text that goes with it. The text is followed",
    "by a `RequestId:` line, which the log repeats, and a `Time:` line. Codes and texts are the services' own,",
    "so clients that know the cloud know these. `TableBeingDeleted` comes only as an injected",
    "[fault](insight.md#the-clouds-limits-and-faults): here a name can be reused at once.",
    "",
    "| Code | Status | Text |",
    "|---|---|---|",
    ...rows,
    "",
    "Some answers have a more specific text instead:",
    "",
    ...texts,
    "",
  ].join("\n");
}

function escapeCell(text: string): string {
  return text.replaceAll("|", "\\|").replaceAll("<", "&lt;");
}
