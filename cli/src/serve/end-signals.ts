const END_SIGNALS = ["SIGINT", "SIGTERM", "SIGHUP"] as const;

/** Told of the first signal that asks this process to end. A second one, of whatever name, ends it at once. */
export function onEndSignal(stop: (signal: NodeJS.Signals) => void): void {
  const first = (signal: NodeJS.Signals) => {
    for (const each of END_SIGNALS) process.off(each, first);
    endBy(signal);
    stop(signal);
  };
  for (const each of END_SIGNALS) process.on(each, first);
}

/**
 * Lets this process end by the signal that asked it to, once it has done what it does at its end. Only where that
 * was a terminal's hang-up: Node gives its terminal back at the end, and aborts where that is gone.
 */
export function endBy(signal: NodeJS.Signals): void {
  if (signal === "SIGHUP") process.once("exit", () => process.kill(process.pid, signal));
}
