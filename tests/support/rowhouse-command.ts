import { type ChildProcess, spawn } from "node:child_process";
import { fileURLToPath } from "node:url";

const root = fileURLToPath(new URL("../..", import.meta.url));

const TYPESCRIPT = ["--import", "tsx"];

/**
 * Node's arguments that run the command: compiled in a full test run, which builds first. It then starts with
 * 0.3 s of CPU instead of 0.9 each time.
 */
export const ROWHOUSE = process.env.TEST_BUILT
  ? ["cli/dist/main.js"]
  : ["--conditions=rowhouse-source", ...TYPESCRIPT, "cli/src/main.ts"];

/** The `rowhouse` command with any arguments, in its own process. */
export class RowhouseCommand {
  readonly #child: ChildProcess;
  readonly exited: Promise<number | null>;
  stdout = "";
  stderr = "";
  /** No more output will come. */
  #hasEnded = false;
  #waiting: (() => void)[] = [];

  /** @param limit a line of shell that limits it first */
  constructor(
    args: readonly string[],
    environment: Readonly<Record<string, string>> = {},
    limit?: string,
  ) {
    const readsTypeScript = args.some((argument) => argument.endsWith(".ts"));
    const command = [...(readsTypeScript ? TYPESCRIPT : []), ...ROWHOUSE, ...args];
    const env = { ...process.env, AZURITE_ACCOUNTS: "", ...environment };
    const [program, ...words] =
      limit === undefined
        ? [process.execPath, ...command]
        : ["sh", "-c", `${limit}; exec "$0" "$@"`, process.execPath, ...command];
    this.#child = spawn(program!, words, {
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

  /** Resolves with the match once complete lines contain it. Rejects if the process ends without it. */
  async until(pattern: RegExp, stream: "stdout" | "stderr" = "stdout"): Promise<RegExpExecArray> {
    for (;;) {
      const text = this[stream];
      // A line may arrive in pieces, and the last one after the process has exited.
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

  /** Closes the reading end of its standard output. */
  stopReading(): void {
    this.#child.stdout!.destroy();
  }

  get pid(): number | undefined {
    return this.#child.pid;
  }

  signal(name: NodeJS.Signals): void {
    this.#child.kill(name);
  }
}
