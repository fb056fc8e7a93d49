import type { ServeOptions } from "./serve-options.ts";

/** An option's name among the parsed values, and on the command line. */
type Flag = readonly [name: keyof ServeOptions, flag: string];

const PLACES: readonly Flag[] = [
  ["inMemoryPersistence", "--inMemoryPersistence"],
  ["location", "--location"],
  ["engine", "--engine (or ROWHOUSE_ENGINE)"],
];
const OF_DATABASES: readonly Flag[] = [
  ["allowUnsafeEngine", "--allowUnsafeEngine"],
  ["requireDurability", "--require-durability"],
  ["preparedStatements", "--no-preparedStatements"],
  ["engineConnections", "--engineConnections"],
  ["readStandby", "--readStandby"],
];
/** These watch only tables, or serve their pages on the table port. */
const OF_TABLES: readonly Flag[] = [
  ["insight", "--insight"],
  ["metrics", "--metrics"],
  ["ci", "--ci"],
  ["explorer", "--explorer"],
  ["scanBudget", "--scan-budget"],
  ["targets", "--targets"],
  ["enforceTargets", "--enforce-targets"],
  ["record", "--record"],
  ["readStandby", "--readStandby"],
];

/**
 * Refuses an option that would have no effect together with, or without, another: the user would believe that it
 * works. Hosts and ports of services that are not started are allowed, because scripts pass them for all services.
 * @param isGiven whether an option was given on the command line
 * @param hasCommand whether there is a command to run while serving
 */
export function checkOptions(
  options: ServeOptions,
  isGiven: (name: keyof ServeOptions) => boolean,
  hasCommand: boolean,
): void {
  const given = (flags: readonly Flag[]) =>
    flags.filter(([name]) => isGiven(name)).map(([, flag]) => flag);
  // ROWHOUSE_ENGINE counts: tests that are to run in memory must never reach the database that it names.
  const [place, other] = PLACES.filter(
    ([name]) => isGiven(name) || (name === "engine" && options.engine !== undefined),
  ).map(([, flag]) => flag);
  if (other)
    throw new Error(
      `${place} and ${other} name different places for the data: use only one of them.`,
    );
  const [ofDatabase] = given(OF_DATABASES);
  if (ofDatabase && options.engine === undefined) {
    throw new Error(`${ofDatabase} needs a database: add --engine, or leave ${ofDatabase} out.`);
  }
  const { insight, scanBudget, targets, enforceTargets } = options;
  if (isGiven("scanReport") && scanBudget === undefined) {
    throw new Error("--scan-report needs --scan-budget: add it, or leave --scan-report out.");
  }
  // ROWHOUSE_INSIGHT_TOKEN may be set for other servers as well, so only the flag is refused.
  if (isGiven("insightToken") && !insight && !scanBudget && !targets && !enforceTargets) {
    throw new Error(
      "--insight-token protects the pages of --insight, --scan-budget and --targets: add one of these, or leave --insight-token out.",
    );
  }
  if (options.noExplorer && (options.explorer || options.explorerHost)) {
    throw new Error("--noExplorer contradicts --explorer and --explorer-host: leave one out.");
  }
  const only = (["queueOnly", "blobOnly"] as const).find((name) => options[name]);
  const [ofTables] = given(OF_TABLES);
  if (ofTables && only && !options.tableOnly) {
    throw new Error(
      `${ofTables} needs the table service, which --${only} excludes: add --tableOnly, or leave ${ofTables} out.`,
    );
  }
  if (options.ci && !options.inMemoryPersistence) {
    throw new Error(
      "--ci lets anyone empty accounts, so it needs data in memory: add --inMemoryPersistence, or leave --ci out.",
    );
  }
  if (options.seed !== undefined && options.workers > 1) {
    throw new Error("--seed works in a single process only: leave it or --workers out.");
  }
  checkTls(options);
  if (options.workers > 1) checkWorkers(options, hasCommand);
}

function checkTls({ cert, key, pwd }: ServeOptions): void {
  if (cert === undefined) {
    const [useless] = [
      ...(key === undefined ? [] : ["--key"]),
      ...(pwd === undefined ? [] : ["--pwd"]),
    ];
    if (useless) throw new Error(`${useless} needs --cert: add it, or leave ${useless} out.`);
  } else if (key === undefined && pwd === undefined) {
    throw new Error(
      "--cert needs another flag: add --key for PEM files, or --pwd for a PFX archive.",
    );
  }
}

function checkWorkers(options: ServeOptions, hasCommand: boolean): void {
  if (hasCommand)
    throw new Error("A command after -- needs a single server process: leave --workers out.");
  if (options.inMemoryPersistence) {
    throw new Error(
      "--workers needs a data folder to share, and --inMemoryPersistence has none: use only one of them.",
    );
  }
}
