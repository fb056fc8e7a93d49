import { readFileSync } from "node:fs";
import { resolve } from "node:path";
import { createSecureContext } from "node:tls";
import type { Accounts } from "@rowhouse/server/auth/accounts";
import { systemClock } from "@rowhouse/server/clock";
import { serverUrl, type TlsMaterial } from "@rowhouse/server/http/http-server";
import { OpenConnections } from "@rowhouse/server/http/open-connections";
import { PeerMemory } from "@rowhouse/server/http/peer-memory";
import { type RunningServer, startServer } from "@rowhouse/server/server";
import type { Account } from "@rowhouse/server/wire/account";
import type { Command } from "commander";
import type { Logger } from "pino";
import { connectionString } from "./connection-string.ts";
import { emulatorName, memoryLine } from "./emulator-names.ts";
import { failWith } from "./fail-with.ts";
import { messageOf } from "./message-of.ts";
import { reportOf } from "./report.ts";
import { seed } from "./seed.ts";
import { ciPages } from "./serve/ci-pages.ts";
import { onSignals } from "./serve/end-signals.ts";
import { type Explorer, offersExplorer, openExplorer } from "./serve/explorer.ts";
import { createLogger, FaultLog, loggingObserver } from "./serve/logs.ts";
import { openEngine } from "./serve/open-engine.ts";
import { openScrub, withScrub } from "./serve/open-scrub.ts";
import { ownRecording } from "./serve/recording-files.ts";
import { giveUpRoot } from "./serve/run-as.ts";
import { runCommand } from "./serve/run-command.ts";
import { checkOptions } from "./serve/serve-conflicts.ts";
import { type ServeOptions, serveOptions, servicesOf } from "./serve/serve-options.ts";
import { readSettings, type Settings } from "./serve/settings.ts";
import { openWatch, prepareWatching, type Watch } from "./serve/watch.ts";
import { disconnectFromPrimary, isWorker, reportListening, runWorkers } from "./serve/workers.ts";
import { packageVersion } from "./version.ts";

/** `rowhouse serve`, which also runs if no command is named. */
export function addServeCommand(program: Command): void {
  const command = program
    .command("serve", { isDefault: true })
    .description("serve tables, queues and blobs (the default)")
    .usage("[options] [-- command...]")
    .argument(
      "[command...]",
      "after --: a command to run while serving; the server stops when it exits",
    );
  for (const option of serveOptions()) command.addOption(option);
  command.action((commandLine: readonly string[], options: ServeOptions) => {
    const hasCommand = process.argv.includes("--");
    if (commandLine.length > 0 && !hasCommand) {
      program.error(
        `error: unexpected argument '${commandLine[0]}'; a command to run while serving goes after --`,
      );
    }
    // An empty command is usually an unset variable of a script, which would then wait forever.
    if (hasCommand && !commandLine[0])
      program.error("error: there is no command after --; name one, or leave -- out");
    const isGiven = (name: keyof ServeOptions) => command.getOptionValueSource(name) === "cli";
    try {
      checkOptions(options, isGiven, hasCommand);
    } catch (error) {
      failWith(program, `rowhouse cannot start: ${messageOf(error)}`);
    }
    return serve(options, commandLine, program);
  });
}

interface Running {
  readonly server: RunningServer;
  readonly accounts: Accounts;
  /** Closes the server, then its monitoring. */
  close(): Promise<void>;
}

/** @param commandLine a command with its arguments; the server stops when it exits. Empty for none. */
async function serve(
  options: ServeOptions,
  commandLine: readonly string[],
  program: Command,
): Promise<void> {
  let running: Running | undefined;
  try {
    running = await startOrFork(options, commandLine);
  } catch (error) {
    failWith(program, `rowhouse cannot start: ${messageOf(error)}${remedyOf(error)}`);
  }
  if (running && commandLine.length > 0)
    process.exitCode = await runAlongside(running, commandLine, options);
}

/** What to do about it, where the message does not say. */
function remedyOf(error: unknown): string {
  const cause = error instanceof Error ? error.cause : undefined;
  const isTaken = cause instanceof Error && "code" in cause && cause.code === "EADDRINUSE";
  return isTaken
    ? ". Another server has that port: stop it, or choose another port (--tablePort, --queuePort, --blobPort; 0 picks a free one)."
    : "";
}

/** Serves in this process, or, with `--workers`, starts worker processes that do; then returns undefined. */
async function startOrFork(
  options: ServeOptions,
  commandLine: readonly string[],
): Promise<Running | undefined> {
  const log = createLogger({ silent: options.silent ?? false, debug: options.debug ?? false });
  const settings = readSettings(options.config, process.env);
  const tls = readTls(options);
  // Workers that replace others must be able to read those files again, so their primary, which serves nobody, stays.
  if (options.workers === 1 || isWorker()) {
    const isStored = options.engine === undefined && !options.inMemoryPersistence;
    giveUpRoot(process.env.ROWHOUSE_RUN_AS, {
      location: isStored ? options.location : undefined,
      recording: options.record && ownRecording(options.record),
    });
  }
  const announce = (lines: readonly string[]) => {
    // Without what opens a page: the explorer's link, the token of insight.
    const addresses = lines.map((line) => line.replace(/^.* /, "").replace(/[#?].*$/, ""));
    log.info({ at: addresses }, "Rowhouse is serving");
    for (const line of lines) say(line);
  };
  if (!isWorker()) {
    const facts = startFacts(options, settings.accounts);
    log.info(facts, "Rowhouse is starting");
    // A module compares the emulator's first line.
    if (emulatorName() === undefined)
      say(`Rowhouse ${facts.version} is starting; its data is in ${facts.data}`);
    else if (options.inMemoryPersistence) say(memoryLine(options.extentMemoryLimit));
    for (const line of startLines(options)) say(line);
    const { environment, report } = prepareWatching(options);
    if (options.workers > 1) {
      const workers = { count: options.workers, environment };
      runWorkers({ ...workers, onListening: announce, onEnded: report }, log);
      return undefined;
    }
  }
  if (commandLine.length > 0) accountOf(settings.accounts);
  const { server, watch, explorer } = await start(options, { ...settings, tls }, log);
  const close = () => server.close().then(() => watch.close());
  // Before printing the lines: a script that waits for them may signal the server immediately.
  if (commandLine.length === 0) {
    handleSignals({ close, reload: () => reload(server, options) }, log);
  }
  const { table } = server.urls;
  const pages = table === undefined ? [] : watch.addresses(table);
  const opened =
    table !== undefined && explorer && emulatorName() === undefined
      ? [`The explorer is at ${explorer.address(table)}`]
      : [];
  const insight = pages.map((url) => `Insight is at ${url}`);
  const lines = [...insight, ...opened, ...listeningLines(server)];
  if (isWorker()) reportListening(lines);
  else announce(lines);
  return { server, accounts: settings.accounts, close };
}

/** Runs the command to its end. Returns its exit code, or 1 if that is 0 and a query exceeded the scan budget. */
async function runAlongside(
  { server, accounts, close }: Running,
  command: readonly string[],
  { scanBudget, scanReport }: ServeOptions,
): Promise<number> {
  const found = {
    AZURE_STORAGE_CONNECTION_STRING: connectionString(server.urls, accountOf(accounts)),
  };
  const code = await runCommand(command, found).finally(close);
  return code || (scanBudget === undefined ? 0 : reportOf(scanReport, "text").exitCode);
}

/** The account in the command's environment: the first that is not disabled. */
function accountOf(accounts: Accounts): Account {
  const found = accounts.names
    .map((name) => accounts.find(name))
    .find((account) => account !== undefined && !account.disabled);
  if (found) return found;
  throw new Error("All accounts are disabled; a command after -- needs an enabled one.");
}

async function start(
  options: ServeOptions,
  { accounts, bearer, tls }: Settings & { readonly tls: TlsMaterial | undefined },
  log: Logger,
): Promise<{ server: RunningServer; watch: Watch; explorer: Explorer | undefined }> {
  if (options.oauth !== undefined && !bearer) {
    log.warn(
      "--oauth is given, but no issuer is configured in --config: bearer tokens are refused",
    );
  }
  // lmdb-js prints every failed commit; the log already reports it with the request that failed.
  console.error = (...words) => log.debug({ words: words.map(String) }, "message from a library");
  const opened = await openEngine(options, log);
  const { engine, secondary, contentStore, health, durableMachines, nodesOf } = opened;
  const faults = new FaultLog(log, systemClock);
  const scrub = options.inMemoryPersistence ? undefined : openScrub(engine, faults);
  const memory = new PeerMemory({
    onReport: (peers) => log.warn({ peers }, "slow clients were cut or refused to free memory"),
  });
  const open = new OpenConnections({
    onReport: (connections) =>
      log.warn({ connections }, "closed connections: more would leave too few files to open"),
  });
  const watched = { engine, memory, open, scrub, durableMachines, nodesOf };
  const watching = { ...options, hasExplorer: offersExplorer(options) };
  const watch = openWatch(watching, watched, log, loggingObserver(log, faults));
  const { insight, observer, gate, pages, stopwatch } = watch;
  let running: RunningServer | undefined;
  const ci = options.ci
    ? ciPages({ accounts, bearer, server: () => running, seed: options.seed })
    : [];
  const onError = (error: unknown) =>
    faults.report("background work failed and will be retried, or a response was cut off", error);
  const explorer = openExplorer(options, {
    ...{ accounts, engine, server: () => running, insight: watch.forExplorer, onError },
  });
  const server = await startServer({
    accounts,
    engine,
    secondary,
    contentStore,
    health: scrub ? withScrub(health, scrub) : health,
    background: [...(scrub ? [scrub] : []), ...(explorer ? [explorer.background] : [])],
    bearer,
    tls,
    listen: Object.fromEntries(
      servicesOf(options).map((name) => [
        name,
        { host: options[`${name}Host`], port: options[`${name}Port`] },
      ]),
    ),
    lane: options.lane,
    memory,
    open,
    hostStyle: !options.disableProductStyleUrl,
    checkDate: !options.skipDateCheck,
    allowsPublicAccess: !options.forbidPublicAccess,
    observer,
    insight,
    gate,
    pages: [...pages, ...ci, ...(explorer?.pages ?? [])],
    stopwatch,
    onError,
  });
  if (options.seed !== undefined) {
    try {
      await seed(options.seed, server, accountOf(accounts));
    } catch (error) {
      await server.close();
      throw error;
    }
  }
  running = server;
  return { server, watch, explorer };
}

/** What the log says first, to tell one start from another. */
function startFacts(options: ServeOptions, { names }: Accounts) {
  const { engine, inMemoryPersistence, location, workers } = options;
  return {
    version: packageVersion(),
    node: process.version,
    data: engine
      ? addressOf(engine)
      : inMemoryPersistence
        ? "memory, and lost at the end"
        : resolve(location),
    accounts: names.length > NAMES_MAX ? `${names.length} accounts` : names.join(", "),
    ...(workers > 1 && { workers }),
  };
}

const NAMES_MAX = 10;

/** A database without the user and password. What is not a URL will be refused, and may contain a password too. */
function addressOf(database: string): string {
  if (!URL.canParse(database)) return "a database";
  const { protocol, host, pathname } = new URL(database);
  return `${protocol}//${host}${pathname}`;
}

/** Lines for standard output. Test containers wait for exactly these words. */
function startLines(options: ServeOptions): string[] {
  const isTls = options.cert !== undefined;
  return servicesOf(options).map((name) => {
    const url = serverUrl({ host: options[`${name}Host`], port: options[`${name}Port`], isTls });
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

/** What a server does at signals. */
interface Signalled {
  close(): Promise<void>;
  reload(): Promise<void>;
}

function handleSignals(server: Signalled, log: Logger): void {
  const stop = (signal: NodeJS.Signals) => {
    log.info({ signal }, "shutting down: finishing requests in progress");
    server.close().then(
      () => {
        log.info("closed");
        disconnectFromPrimary();
      },
      (error) => {
        log.error({ err: error }, "shutdown failed");
        process.exit(1);
      },
    );
  };
  const reload = () =>
    server.reload().then(
      () => log.info("read the accounts and the certificate again"),
      (error) =>
        log.error(
          { reason: messageOf(error) },
          "could not read the accounts and the certificate again: those in use stay",
        ),
    );
  if (!isWorker()) {
    onSignals({ stop, reload });
    return;
  }
  process.once("SIGTERM", stop);
  process.on("SIGHUP", reload);
  // A terminal sends this to the whole process group; workers wait for their primary's SIGTERM.
  process.on("SIGINT", () => {});
}

/** Reads the --config file and the certificate again. @throws Error if either is unusable; then nothing changes */
async function reload(server: RunningServer, options: ServeOptions): Promise<void> {
  const { accounts, bearer } = readSettings(options.config, process.env);
  await server.admit({ accounts, bearer, tls: readTls(options) });
}

/** @throws Error for unreadable files, an invalid certificate, and a key that does not belong to it. */
function readTls({ cert, key, pwd }: ServeOptions): TlsMaterial | undefined {
  if (cert === undefined) return undefined;
  const passphrase = pwd === undefined ? {} : { passphrase: pwd };
  try {
    const material =
      key === undefined
        ? { pfx: readFileSync(cert), ...passphrase }
        : { cert: readFileSync(cert), key: readFileSync(key), ...passphrase };
    createSecureContext(material);
    return material;
  } catch (cause) {
    const flags = key === undefined ? "--cert and --pwd" : "--cert and --key";
    throw new Error(`Cannot use ${flags}: ${messageOf(cause)}`, { cause });
  }
}
