import { type ChildProcess, spawn } from "node:child_process";
import { fileURLToPath } from "node:url";

const root = fileURLToPath(new URL("../..", import.meta.url));

/** The `rowhouse` command with any arguments, run from the sources. */
export class RowhouseCommand {
  readonly #child: ChildProcess;
  readonly exited: Promise<number | null>;
  stdout = "";
  stderr = "";
  #changed: () => void = () => {};

  constructor(args: readonly string[], environment: Readonly<Record<string, string>> = {}) {
    const command = ["--conditions=source", "--import", "tsx", "cli/src/main.ts", ...args];
    const env = { ...process.env, AZURITE_ACCOUNTS: "", ...environment };
    this.#child = spawn(process.execPath, command, {
      cwd: root,
      env,
      stdio: ["ignore", "pipe", "pipe"],
    });
    this.#child.stdout!.on("data", (chunk) => {
      this.stdout += chunk;
      this.#changed();
    });
    this.#child.stderr!.on("data", (chunk) => {
      this.stderr += chunk;
      this.#changed();
    });
    this.exited = new Promise((resolve) => this.#child.once("close", resolve));
    void this.exited.then(() => this.#changed());
  }

  /** Resolves with the match once the output has it. Rejects when the process ends without. */
  async until(pattern: RegExp, stream: "stdout" | "stderr" = "stdout"): Promise<RegExpExecArray> {
    for (;;) {
      const found = pattern.exec(this[stream]);
      if (found) return found;
      if (this.#child.exitCode !== null || this.#child.signalCode !== null) {
        throw new Error(`The command ended without ${pattern}: ${this.stdout}${this.stderr}`);
      }
      await new Promise<void>((resolve) => {
        this.#changed = resolve;
      });
    }
  }

  /** Nobody reads its standard output any more. */
  stopReading(): void {
    this.#child.stdout!.destroy();
  }

  signal(name: NodeJS.Signals): void {
    this.#child.kill(name);
  }
}
