/**
 * A value that is either available now or arrives by promise. An engine in this process answers a read
 * synchronously.
 */
export type Awaitable<T> = T | Promise<T>;

/**
 * `then` for values that are often available already. A read that the engine answers synchronously then costs
 * neither a promise nor a turn of the event loop.
 */
export function whenReady<T, U>(
  value: Awaitable<T>,
  next: (value: T) => Awaitable<U>,
): Awaitable<U> {
  return value instanceof Promise ? value.then(next) : next(value);
}

/**
 * Returns the same promise. A failure is for the caller that awaits it later; until then it must not count as
 * unhandled.
 */
export function handledLater<T>(work: Promise<T>): Promise<T> {
  work.catch(() => {});
  return work;
}
