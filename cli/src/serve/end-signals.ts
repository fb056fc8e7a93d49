import { closeSync, openSync } from "node:fs";

const END_SIGNALS = ["SIGINT", "SIGTERM"] as const;

export interface SignalHandlers {
  stop(signal: NodeJS.Signals): void;
  reload(): void;
}

/**
 * Calls `stop` at the first signal to end this process. A second signal, whichever, ends it at once. SIGHUP calls
 * `reload`, as operators expect of a server, unless this process was started in a terminal that is gone now: a
 * server that nobody can see any more would keep its ports.
 */
export function onSignals({ stop, reload }: SignalHandlers): void {
  const startedInTerminal = hasTerminal();
  const end = (signal: NodeJS.Signals) => {
    for (const each of END_SIGNALS) process.off(each, end);
    process.off("SIGHUP", hangUp);
    endBy(signal);
    stop(signal);
  };
  const hangUp = () => {
    if (startedInTerminal && !hasTerminal()) end("SIGHUP");
    else reload();
  };
  for (const each of END_SIGNALS) process.on(each, end);
  process.on("SIGHUP", hangUp);
}

/** The system takes a closed terminal away from its processes before it sends them SIGHUP. */
function hasTerminal(): boolean {
  try {
    closeSync(openSync("/dev/tty", "r"));
    return true;
  } catch {
    return false;
  }
}

/**
 * After SIGHUP, makes this process end by that signal once its orderly shutdown is complete. The terminal may be
 * gone by then: Node restores the terminal's settings when it exits, and aborts if it cannot.
 */
export function endBy(signal: NodeJS.Signals): void {
  if (signal === "SIGHUP") process.once("exit", () => process.kill(process.pid, signal));
}
