/**
 * Runs `work` on each item in order, a few at a time. A failure does not stop the other items. Rejects with
 * the first failure once all work has ended.
 */
export async function eachBounded<Item>(
  items: Iterable<Item>,
  work: (item: Item) => Promise<void>,
  atOnce = 4,
): Promise<void> {
  const failures: unknown[] = [];
  const rest = items[Symbol.iterator]();
  const worker = async () => {
    for (let next = rest.next(); !next.done; next = rest.next()) {
      await work(next.value).catch((error) => failures.push(error));
    }
  };
  await Promise.all(Array.from({ length: atOnce }, worker));
  if (failures.length > 0) throw failures[0];
}
