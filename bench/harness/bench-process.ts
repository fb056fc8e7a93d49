import type { ChildProcess } from "node:child_process";
import { once } from "node:events";
import { fileURLToPath } from "node:url";
import { type Cores, spawnNode } from "./cores.ts";

/** A module of the bench in its own process, which answers one command at a time. */
export class BenchProcess<Command, Result> {
  readonly pid: number;
  readonly #child: ChildProcess;

  private constructor(child: ChildProcess, pid: number) {
    this.#child = child;
    this.pid = pid;
  }

  /** `packages`: whether it imports our packages compiled, as they are shipped, or from their sources. */
  static async start<Command, Result>(
    module: URL,
    cores: Cores,
    packages: "compiled" | "sources" = "sources",
  ): Promise<BenchProcess<Command, Result>> {
    const conditions = packages === "sources" ? ["--conditions=rowhouse-source"] : [];
    const child = spawnNode(cores, [...conditions, "--import", "tsx", fileURLToPath(module)], {
      stdio: ["ignore", "inherit", "inherit", "ipc"],
      serialization: "advanced",
    });
    await once(child, "message");
    if (child.pid === undefined) throw new Error(`${module.pathname} did not start.`);
    return new BenchProcess(child, child.pid);
  }

  async ask(command: Command): Promise<Result> {
    const exit = new AbortController();
    const died = once(this.#child, "exit", exit).then(() => {
      throw new Error("A process of the bench ended before it answered.");
    });
    this.#child.send(command as object);
    try {
      const [reply] = await Promise.race([once(this.#child, "message", exit), died]);
      const { result, error } = reply as Reply<Result>;
      if (error !== undefined) throw new Error(error);
      return result as Result;
    } finally {
      exit.abort();
      died.catch(() => {});
    }
  }

  signal(name: "SIGSTOP" | "SIGCONT"): void {
    this.#child.kill(name);
  }

  async stop(): Promise<void> {
    if (this.#child.exitCode !== null) return;
    const exited = once(this.#child, "exit");
    this.#child.kill("SIGCONT");
    this.#child.kill("SIGTERM");
    await exited;
  }
}

interface Reply<Result> {
  readonly result?: Result;
  readonly error?: string;
}

/** The other end: answers the parent's commands until the parent ends this process. */
export function answerCommands<Command, Result>(
  answer: (command: Command) => Promise<Result>,
): void {
  const reply = (message: Reply<Result>) => process.send?.(message);
  process.on("message", (command) => {
    answer(command as Command).then(
      (result) => reply({ result }),
      (error: unknown) =>
        reply({ error: error instanceof Error ? String(error.stack) : String(error) }),
    );
  });
  process.on("disconnect", () => process.exit());
  reply({});
}
