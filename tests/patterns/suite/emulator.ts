import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { FakeClock } from "@rowhouse/patterns/testing";
import { installAzurite } from "../../../bench/contenders/azurite.ts";
import { freePort } from "../../../bench/harness/server-process.ts";
import { clientsOf, type Target } from "./target.ts";

const MAIN = fileURLToPath(
  new URL("../../../bench/.peer/node_modules/.bin/azurite", import.meta.url),
);
const ACCOUNTS_MAX = 200;
const KEY = Buffer.from("a key that everybody may know").toString("base64");

/** The npm emulator, all three services. Each case has its own account, so that none sees another's data. */
export class Emulator implements Target {
  readonly name = "the npm emulator";
  readonly #child: ChildProcess;
  readonly #folder: string;
  readonly #urls: { readonly table: string; readonly queue: string; readonly blob: string };
  #accounts = 0;

  private constructor(child: ChildProcess, folder: string, urls: Emulator["urls"]) {
    this.#child = child;
    this.#folder = folder;
    this.#urls = urls;
  }

  get urls() {
    return this.#urls;
  }

  static async start(): Promise<Emulator> {
    installAzurite();
    const folder = mkdtempSync(join(tmpdir(), "rowhouse-emulator-"));
    const ports = { table: await freePort(), queue: await freePort(), blob: await freePort() };
    const accounts = Array.from({ length: ACCOUNTS_MAX }, (_, i) => `${accountOf(i)}:${KEY}`);
    const flags = Object.entries(ports).flatMap(([service, port]) => [
      `--${service}Port`,
      `${port}`,
    ]);
    const child = spawn(
      process.execPath,
      [MAIN, ...flags, "--location", folder, "--disableTelemetry", "--skipApiVersionCheck"],
      {
        env: { ...process.env, AZURITE_ACCOUNTS: accounts.join(";") },
        stdio: ["ignore", "pipe", "inherit"],
      },
    );
    process.once("exit", () => child.kill("SIGKILL"));
    await listening(child);
    const url = (port: number) => `http://127.0.0.1:${port}`;
    const urls = { table: url(ports.table), queue: url(ports.queue), blob: url(ports.blob) };
    return new Emulator(child, folder, urls);
  }

  async open() {
    const account = accountOf(this.#accounts++);
    // The emulator's clock cannot be moved: cases that wait are known gaps.
    const clock = new FakeClock(Date.now());
    const address = { ...this.#urls, account, key: KEY, profile: "azurite", clock } as const;
    return { endpoints: clientsOf(address), close: async () => {} };
  }

  async stop(): Promise<void> {
    const exited = once(this.#child, "exit");
    this.#child.kill("SIGKILL");
    await exited;
    rmSync(this.#folder, { recursive: true, force: true });
  }
}

/** Keeps reading afterwards, because the emulator logs every request. */
function listening(child: ChildProcess): Promise<void> {
  return new Promise((resolve, reject) => {
    let printed = "";
    child.stdout?.on("data", (chunk) => {
      if (printed.length > 10_000) return;
      printed += chunk;
      if (/Table service is successfully listening/.test(printed)) resolve();
    });
    child.once("exit", (code) => reject(new Error(`The emulator ended with ${code}:\n${printed}`)));
  });
}

function accountOf(i: number): string {
  return `account${i}`;
}
