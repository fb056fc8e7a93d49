/** Resolves when it is so, and what was begun by then had its turn. */
export async function until(isSo: () => boolean): Promise<void> {
  while (!isSo()) await turns(1);
  await turns(1);
}

/** So many turns of the event loop. */
export async function turns(count: number): Promise<void> {
  for (let i = 0; i < count; i++) await new Promise((resolve) => setImmediate(resolve));
}
