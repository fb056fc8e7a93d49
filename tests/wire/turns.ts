/** Resolves once the condition holds, after one more turn for work that has started. */
export async function until(isSo: () => boolean): Promise<void> {
  while (!isSo()) await turns(1);
  await turns(1);
}

/** This many turns of the event loop. */
export async function turns(count: number): Promise<void> {
  for (let i = 0; i < count; i++) await new Promise((resolve) => setImmediate(resolve));
}
