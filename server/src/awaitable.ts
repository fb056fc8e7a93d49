/** What may be there already, or comes by promise: an engine in this process answers a read at once. */
export type Awaitable<T> = T | Promise<T>;

/**
 * `then` for values that are often there already: a read answered synchronously by the engine then
 * costs neither a promise nor a turn of the event loop.
 */
export function whenReady<T, U>(
  value: Awaitable<T>,
  next: (value: T) => Awaitable<U>,
): Awaitable<U> {
  return value instanceof Promise ? value.then(next) : next(value);
}

/** The same promise. A failure is for who awaits it later; until then it must not count as unhandled. */
export function handledLater<T>(work: Promise<T>): Promise<T> {
  work.catch(() => {});
  return work;
}
