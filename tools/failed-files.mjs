/**
 * A reporter for node's test runner: prints the names of what failed at the top, one per line. Those are the suites
 * that the programs of a full run make of files, and programs that crashed.
 */
export default async function* failedFiles(events) {
  for await (const { type, data } of events) {
    if (type === "test:fail" && data.nesting === 0) yield `${data.name}\n`;
  }
}
