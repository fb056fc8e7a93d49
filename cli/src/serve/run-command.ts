import { spawn } from "node:child_process";
import { once } from "node:events";
import { constants } from "node:os";
import { messageOf } from "../message-of.ts";
import { endBy } from "./end-signals.ts";

/**
 * Runs a command to its end, with `environment` added to this process's. Returns its exit code as shells report it:
 * 128 plus the number of the signal if one ended it.
 * @throws Error if the command cannot be started.
 */
export async function runCommand(
  [file = "", ...args]: readonly string[],
  environment: Readonly<Record<string, string>>,
): Promise<number> {
  const env = { ...process.env, ...environment };
  const child = spawn(file, args, { stdio: "inherit", env });
  const pass = (signal: NodeJS.Signals) => {
    child.kill(signal);
    endBy(signal);
  };
  // A terminal sends SIGINT to the command as well.
  const wait = () => {};
  process.on("SIGTERM", pass);
  process.on("SIGHUP", pass);
  process.on("SIGINT", wait);
  try {
    const [code, signal] = (await once(child, "exit")) as [number | null, NodeJS.Signals | null];
    return code ?? 128 + constants.signals[signal ?? "SIGTERM"];
  } catch (cause) {
    throw new Error(`Cannot run the command: ${messageOf(cause)}`, { cause });
  } finally {
    process.off("SIGTERM", pass);
    process.off("SIGHUP", pass);
    process.off("SIGINT", wait);
  }
}
