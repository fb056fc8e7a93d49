import { readFileSync } from "node:fs";
import { resolve } from "node:path";
import type { Engine } from "@rowhouse/server/engine/engine";
import { openLmdbEngine } from "@rowhouse/server/engine/lmdb/lmdb-engine";
import { MemoryEngine } from "@rowhouse/server/engine/memory-engine";
import type { TlsMaterial } from "@rowhouse/server/http/http-server";
import { type RunningServer, startServer } from "@rowhouse/server/server";
import type { Command } from "commander";
import { createLogger, loggingObserver } from "./logs.ts";
import { type ServeOptions, serveOptions } from "./serve-options.ts";
import { readSettings } from "./settings.ts";

/** `rowhouse serve`, which is also what `rowhouse` alone does. */
export function addServeCommand(program: Command): void {
  const command = program
    .command("serve", { isDefault: true })
    .description("serve tables (the default)");
  for (const option of serveOptions()) command.addOption(option);
  command.action((options: ServeOptions) => serve(options, program));
}

async function serve(options: ServeOptions, program: Command): Promise<void> {
  const log = createLogger({ silent: options.silent ?? false, debug: options.debug ?? false });
  let server: RunningServer;
  try {
    const { accounts, bearer } = readSettings(options.config, process.env);
    if (options.oauth !== undefined && !bearer) {
      log.warn(
        "--oauth is given, but no issuer: bearer tokens are refused. See --config in the manual.",
      );
    }
    const tls = readTls(options);
    const engine = await openEngine(options);
    const scheme = tls ? "https" : "http";
    say(
      `Azurite Table service is starting at ${scheme}://${options.tableHost}:${options.tablePort}`,
    );
    server = await startServer({
      accounts,
      engine,
      listen: { table: { host: options.tableHost, port: options.tablePort } },
      tls,
      bearer,
      hostStyle: !options.disableProductStyleUrl,
      checkDate: !options.skipDateCheck,
      observer: loggingObserver(log),
      onBackgroundError: (error) =>
        log.error({ err: error }, "background work failed; it is tried again"),
    });
  } catch (error) {
    return program.error(
      `rowhouse cannot start: ${error instanceof Error ? error.message : error}`,
    );
  }
  // Test containers wait for these very lines.
  say(`Azurite Table service is successfully listening at ${server.urls.table}`);

  const stop = (signal: NodeJS.Signals) => {
    log.info({ signal }, "closing: finishing what is under way");
    server.close().then(
      () => log.info("closed"),
      (error) => {
        log.error({ err: error }, "closing failed");
        process.exitCode = 1;
      },
    );
  };
  process.once("SIGINT", stop);
  process.once("SIGTERM", stop);
}

function say(line: string): void {
  process.stdout.write(`${line}\n`);
}

async function openEngine({ inMemoryPersistence, location }: ServeOptions): Promise<Engine> {
  return inMemoryPersistence ? new MemoryEngine() : openLmdbEngine({ path: resolve(location) });
}

function readTls({ cert, key, pwd }: ServeOptions): TlsMaterial | undefined {
  if (cert === undefined) {
    if (key !== undefined) throw new Error("--key is given without --cert.");
    return undefined;
  }
  if (key !== undefined) return { cert: readFileSync(cert), key: readFileSync(key) };
  if (pwd !== undefined) return { pfx: readFileSync(cert), passphrase: pwd };
  throw new Error("--cert needs --key (PEM) or --pwd (PFX).");
}
