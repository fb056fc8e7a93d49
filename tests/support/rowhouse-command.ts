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
  /** Nothing more will come. */
  #hasEnded = false;
  #waiting: (() => void)[] = [];

  constructor(args: readonly string[], environment: Readonly<Record<string, string>> = {}) {
    const command = [...(args[0] === "patterns" ? SOURCES : ROWHOUSE), ...args];
    const env = { ...process.env, AZURITE_ACCOUNTS: "", ...environment };
    this.#child = spawn(process.execPath, command, {
      cwd: root,
      env,
      stdio: ["ignore", "pipe", "pipe"],
    });
    this.#child.stdout!.setEncoding("utf8").on("data", (chunk: string) => {
      this.stdout += chunk;
      this.#change();
    });
    this.#child.stderr!.setEncoding("utf8").on("data", (chunk: string) => {
      this.stderr += chunk;
      this.#change();
    });
    this.exited = new Promise((resolve) => {
      this.#child.once("close", (code) => {
        this.#hasEnded = true;
        this.#change();
        resolve(code);
      });
    });
  }

  /** Resolves with the match once whole lines have it. Rejects when the process ends without. */
  async until(pattern: RegExp, stream: "stdout" | "stderr" = "stdout"): Promise<RegExpExecArray> {
    for (;;) {
      const text = this[stream];
      // A line may come in pieces, and the last of them after the process has exited.
      const found = pattern.exec(this.#hasEnded ? text : text.slice(0, text.lastIndexOf("\n") + 1));
      if (found) return found;
      if (this.#hasEnded) {
        throw new Error(`The command ended without ${pattern}: ${this.stdout}${this.stderr}`);
      }
      await new Promise<void>((resolve) => this.#waiting.push(resolve));
    }
  }

  #change(): void {
    for (const resolve of this.#waiting.splice(0)) resolve();
  }

  /** Nobody reads its standard output any more. */
  stopReading(): void {
    this.#child.stdout!.destroy();
  }

  signal(name: NodeJS.Signals): void {
    this.#child.kill(name);
  }
}
