import { readFileSync } from "node:fs";
import type { Accounts } from "@rowhouse/server/auth/accounts";
import { systemClock } from "@rowhouse/server/clock";
import type { TlsMaterial } from "@rowhouse/server/http/http-server";
import { type RunningServer, startServer } from "@rowhouse/server/server";
import type { Command } from "commander";
import type { Logger } from "pino";
import { failWith } from "./fail-with.ts";
import { createLogger, FaultLog, loggingObserver } from "./logs.ts";
import { openEngine } from "./open-engine.ts";
import { reportOf } from "./report.ts";
import { connectionString, runCommand } from "./run-command.ts";
import { type ServeOptions, serveOptions, servicesOf } from "./serve-options.ts";
import { readSettings } from "./settings.ts";
import { openWatch, type Watch } from "./watch.ts";
import { isWatching } from "./watch-options.ts";
import { disconnectFromPrimary, isWorker, reportListening, runWorkers } from "./workers.ts";

/** `rowhouse serve`, which is also what `rowhouse` alone does. */
export function addServeCommand(program: Command): void {
  const command = program
    .command("serve", { isDefault: true })
    .description("serve tables, queues and blobs (the default)")
    .usage("[options] [-- command...]")
    .argument("[command...]", "behind --: run beside the server, which ends with it");
  for (const option of serveOptions()) command.addOption(option);
  command.action((beside: readonly string[], options: ServeOptions) => {
    if (beside.length > 0 && !process.argv.includes("--")) {
      program.error(`error: serve takes no '${beside[0]}'; a command to run stands behind --`);
    }
    return serve(options, beside, program);
  });
}

/** @param beside a command with its arguments, which the server ends with; or none */
async function serve(
  options: ServeOptions,
  beside: readonly string[],
  program: Command,
): Promise<void> {
  const log = createLogger({ silent: options.silent ?? false, debug: options.debug ?? false });
  try {
    if (!isWorker()) for (const line of startLines(options)) say(line);
    if (options.workers > 1 && !isWorker()) {
      if (beside.length > 0) {
        throw new Error("A command is run beside one process: leave --workers out.");
      }
      if (options.inMemoryPersistence) {
        throw new Error("--workers shares a data folder, and --inMemoryPersistence has none.");
      }
      if (isWatching(options)) {
        throw new Error("What is watched is watched in one process: leave --workers out.");
      }
      readSettings(options.config, process.env);
      return runWorkers(options.workers, log, say);
    }
    const { server, watch, accounts } = await start(options, log);
    const close = () => server.close().then(() => watch.close());
    // Before the lines: whoever waits for them may end the server at once.
    if (beside.length === 0) closeOnSignal({ close }, log);
    const { table } = server.urls;
    const pages = table === undefined ? [] : watch.addresses(table);
    const lines = [...pages.map((url) => `Insight is at ${url}`), ...listeningLines(server)];
    if (isWorker()) reportListening(lines);
    else for (const line of lines) say(line);
    if (beside.length > 0) {
      const account = accounts.find(accounts.names[0]!)!;
      const found = { AZURE_STORAGE_CONNECTION_STRING: connectionString(server.urls, account) };
      const code = await runCommand(beside, found).finally(close);
      const hasBudget = options.scanBudget !== undefined;
      process.exitCode = code || (hasBudget ? reportOf(options.scanReport, "text").exitCode : 0);
    }
  } catch (error) {
    failWith(program, `rowhouse cannot start: ${error instanceof Error ? error.message : error}`);
  }
}

async function start(
  options: ServeOptions,
  log: Logger,
): Promise<{ server: RunningServer; watch: Watch; accounts: Accounts }> {
  const { accounts, bearer } = readSettings(options.config, process.env);
  if (options.oauth !== undefined && !bearer) {
    log.warn("--oauth is given, but no issuer: bearer tokens are refused. See --config.");
  }
  const tls = readTls(options);
  // lmdb-js prints every commit that failed; the log tells of those with what they refused.
  console.error = (...words) => log.debug({ words: words.map(String) }, "printed by a library");
  const { engine, contents, health } = await openEngine(options, log);
  const faults = new FaultLog(log, systemClock);
  const watch = openWatch(options, engine, log, loggingObserver(log, faults));
  const { insight, observer, gate, pages, stopwatch } = watch;
  const server = await startServer({
    accounts,
    engine,
    contents,
    health,
    bearer,
    tls,
    listen: Object.fromEntries(
      servicesOf(options).map((name) => [
        name,
        { host: options[`${name}Host`], port: options[`${name}Port`] },
      ]),
    ),
    lane: options.lane,
    hostStyle: !options.disableProductStyleUrl,
    checkDate: !options.skipDateCheck,
    allowsPublicAccess: !options.forbidPublicAccess,
    observer,
    insight,
    gate,
    pages,
    stopwatch,
    onError: (error) =>
      faults.tell("background work failed and is tried again, or an answer was cut off", error),
  });
  return { server, watch, accounts };
}

/** Lines on standard output. Test containers wait for the very words. */
function startLines(options: ServeOptions): string[] {
  const scheme = options.cert === undefined ? "http" : "https";
  return servicesOf(options).map((name) => {
    const url = `${scheme}://${options[`${name}Host`]}:${options[`${name}Port`]}`;
    return `Azurite ${title(name)} service is starting at ${url}`;
  });
}

function listeningLines({ urls }: RunningServer): string[] {
  return Object.entries(urls).map(
    ([name, url]) => `Azurite ${title(name)} service is successfully listening at ${url}`,
  );
}

function title(name: string): string {
  return name.slice(0, 1).toUpperCase() + name.slice(1);
}

function say(line: string): void {
  process.stdout.write(`${line}\n`);
}

function closeOnSignal(server: Pick<RunningServer, "close">, log: Logger): void {
  const stop = (signal: NodeJS.Signals) => {
    log.info({ signal }, "closing: finishing what is under way");
    server.close().then(
      () => {
        log.info("closed");
        disconnectFromPrimary();
      },
      (error) => {
        log.error({ err: error }, "closing failed");
        process.exit(1);
      },
    );
  };
  process.once("SIGTERM", stop);
  // Sent by a terminal to all processes of the group; workers are told by their primary.
  process.once("SIGINT", isWorker() ? () => {} : stop);
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
