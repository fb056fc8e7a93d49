/** A reporter for node's test runner: prints the files in which a test failed, one per line. */
export default async function* failedFiles(events) {
  const named = new Set();
  for await (const { type, data } of events) {
    // A file that crashes is reported as a failed test that has the file's name and no `file` of its own.
    const file = data.file ?? data.name;
    if (type !== "test:fail" || named.has(file)) continue;
    named.add(file);
    yield `${file}\n`;
  }
}
