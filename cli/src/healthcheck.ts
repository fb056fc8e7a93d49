import { once } from "node:events";
import { get as getHttp, type IncomingMessage } from "node:http";
import { get as getHttps } from "node:https";
import { text } from "node:stream/consumers";
import { setTimeout as pause } from "node:timers/promises";
import { type Command, InvalidArgumentError } from "commander";
import { messageOf } from "./message-of.ts";
import { notEmpty } from "./not-empty.ts";

interface HealthOptions {
  readonly against: string;
  readonly wait: number;
}

/** A server that takes longer than this to say that it is ready is not. */
const ANSWER_MS_MAX = 2000;
const ASK_AGAIN_MS = 100;

/** `rowhouse healthcheck`, for images and units, which have no other program that asks. */
export function addHealthcheckCommand(program: Command): void {
  program
    .command("healthcheck")
    .description("ask a server whether it is ready; exits with 1 if it is not")
    .option(
      "--against <url>",
      "the server, on any of its ports",
      notEmpty,
      "http://127.0.0.1:10002",
    )
    .option("--wait <seconds>", "how long to ask again until it is ready", parseSeconds, 0)
    .action(async ({ against, wait }: HealthOptions) => {
      if (!URL.canParse("/readyz", against)) throw new Error(`"${against}" is not a URL.`);
      const found = await readyWithin(wait, new URL("/readyz", against));
      process.stdout.write(`${found.detail.trim()}\n`);
      process.exitCode = found.ready ? 0 : 1;
    });
}

/** Asks until the server is ready, or the time has passed. */
export async function readyWithin(seconds: number, url: URL): Promise<Readiness> {
  const giveUpAt = performance.now() + seconds * 1000;
  let found = await readiness(url);
  while (!found.ready && performance.now() < giveUpAt) {
    await pause(ASK_AGAIN_MS);
    found = await readiness(url);
  }
  return found;
}

interface Readiness {
  readonly ready: boolean;
  /** What the server says, or why it says nothing. */
  readonly detail: string;
}

async function readiness(url: URL): Promise<Readiness> {
  const signal = AbortSignal.timeout(ANSWER_MS_MAX);
  // Nothing is sent that a server of somebody else could use, so its certificate does not matter.
  const options = { signal, agent: false, rejectUnauthorized: false };
  try {
    const request = url.protocol === "https:" ? getHttps(url, options) : getHttp(url, options);
    const [response]: IncomingMessage[] = await once(request, "response");
    const detail = await text(response!);
    return { ready: response!.statusCode === 200, detail };
  } catch (error) {
    const why = signal.aborted ? `no answer in ${ANSWER_MS_MAX / 1000} s` : messageOf(error);
    return { ready: false, detail: `Nothing serves at ${url.origin} (${why}).` };
  }
}

export function parseSeconds(seconds: string): number {
  if (/^\d{1,4}$/.test(seconds)) return Number(seconds);
  throw new InvalidArgumentError("It must be a whole number of seconds, 9999 at most.");
}
