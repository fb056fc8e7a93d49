/** Lines for a terminal. Keys and filters are what clients sent: they must not command it, nor pass for lines of ours. */
export function terminalText(lines: readonly string[]): string {
  return `${lines.map((line) => line.replace(/\p{Cc}/gu, "\ufffd")).join("\n")}\n`;
}
