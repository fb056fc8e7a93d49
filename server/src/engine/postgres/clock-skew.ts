import type { Clock } from "../../clock.ts";
import { EngineError } from "../engine.ts";
import type { ServerFacts } from "./server-facts.ts";

/** How far this machine's clock may be from the server's, and so twice as far from another front end's. */
export const CLOCK_SKEW_MS_MAX = 60_000;

/** How many milliseconds a clock is ahead of the server's; negative when it is behind. */
export function clockAheadMs({ clockMicroseconds }: ServerFacts, clock: Clock): number {
  return Math.round(clock.now() - clockMicroseconds / 1000);
}

/**
 * Whether a message is visible or has expired, and when a lease ends, is decided by the clock of the front
 * end that looks. One whose clock is ahead hands out messages that other clients hold, frees messages that
 * have not expired, and raises the Timestamps of all.
 * @throws EngineError Unavailable
 */
export function assertClock(aheadMs: number, skewMsMax: number): void {
  if (Math.abs(aheadMs) <= skewMsMax) return;
  const seconds = Math.round(Math.abs(aheadMs) / 1000);
  throw new EngineError(
    "Unavailable",
    `Refused to serve: this machine's clock is ${seconds} s ${aheadMs > 0 ? "ahead of" : "behind"} the database server's; at most ${skewMsMax / 1000} s are allowed. Run NTP on both; \`rowhouse engine check\` shows the difference.`,
  );
}
