import { type ChildProcess, spawn } from "node:child_process";
import { fileURLToPath } from "node:url";

const root = fileURLToPath(new URL("../..", import.meta.url));

/** Node's arguments that run the command from the sources, which also takes schemas in TypeScript. */
const SOURCES = ["--conditions=rowhouse-source", "--import", "tsx", "cli/src/main.ts"];

/**
 * Those that run it: as it was built where all tests run, for building comes first there. It then begins
 * with 0.3 s of CPU instead of 0.9, again and again.
 */
export const ROWHOUSE = process.env.TEST_BUILT ? ["cli/dist/main.js"] : SOURCES;

/** The `rowhouse` command with any arguments, in a process of its own. */
export class RowhouseCommand {
  readonly #child: ChildProcess;
  readonly exited: Promise<number | null>;
  stdout = "";
  stderr = "";
  #changed: () => void = () => {};

  constructor(args: readonly string[], environment: Readonly<Record<string, string>> = {}) {
    const command = [...(args[0] === "patterns" ? SOURCES : ROWHOUSE), ...args];
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
