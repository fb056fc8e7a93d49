/**
 * Lines for a terminal. Keys and filters are client input, which must neither control the terminal nor
 * imitate lines of ours.
 */
export function terminalText(lines: readonly string[]): string {
  return `${lines.map((line) => line.replace(/\p{Cc}/gu, "\ufffd")).join("\n")}\n`;
}
