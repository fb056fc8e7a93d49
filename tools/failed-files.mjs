/** A reporter for node's runner: the files in which something failed, one a line. */
export default async function* failedFiles(events) {
  const named = new Set();
  for await (const { type, data } of events) {
    // A file that ends by a crash fails as a test of its own name, without a file of its own.
    const file = data.file ?? data.name;
    if (type !== "test:fail" || named.has(file)) continue;
    named.add(file);
    yield `${file}\n`;
  }
}
