const END_SIGNALS = ["SIGINT", "SIGTERM", "SIGHUP"] as const;

/** Calls `stop` at the first signal to end this process. A second signal, whichever of them, ends it at once. */
export function onEndSignal(stop: (signal: NodeJS.Signals) => void): void {
  const first = (signal: NodeJS.Signals) => {
    for (const each of END_SIGNALS) process.off(each, first);
    endBy(signal);
    stop(signal);
  };
  for (const each of END_SIGNALS) process.on(each, first);
}

/**
 * After SIGHUP, makes this process end by that signal once its orderly shutdown is complete. The terminal may be
 * gone by then: Node restores the terminal's settings when it exits, and aborts if it cannot.
 */
export function endBy(signal: NodeJS.Signals): void {
  if (signal === "SIGHUP") process.once("exit", () => process.kill(process.pid, signal));
}
