import type { ServeOptions } from "./serve-options.ts";
import { isWatching } from "./watch-options.ts";

/** An option's name among the parsed values, and on the command line. */
type Flag = readonly [name: keyof ServeOptions, flag: string];

const PLACES: readonly Flag[] = [
  ["inMemoryPersistence", "--inMemoryPersistence"],
  ["location", "--location"],
  ["engine", "--engine, or ROWHOUSE_ENGINE,"],
];
const OF_DATABASES: readonly Flag[] = [
  ["allowUnsafeEngine", "--allowUnsafeEngine"],
  ["preparedStatements", "--no-preparedStatements"],
  ["engineConnections", "--engineConnections"],
];
/** These watch only tables, or serve their pages on the table port. */
const OF_TABLES: readonly Flag[] = [
  ["insight", "--insight"],
  ["metrics", "--metrics"],
  ["scanBudget", "--scan-budget"],
  ["targets", "--targets"],
  ["enforceTargets", "--enforce-targets"],
  ["record", "--record"],
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
    throw new Error(`${place} and ${other} name different places for the data: leave one out.`);
  const [ofDatabase] = given(OF_DATABASES);
  if (ofDatabase && options.engine === undefined) {
    throw new Error(`${ofDatabase} applies to a database: add --engine, or leave it out.`);
  }
  const { insight, scanBudget, targets, enforceTargets } = options;
  if (isGiven("scanReport") && scanBudget === undefined) {
    throw new Error("--scan-report needs --scan-budget: add that, or leave it out.");
  }
  // ROWHOUSE_INSIGHT_TOKEN may be set for other servers as well, so only the flag is refused.
  if (isGiven("insightToken") && !insight && !scanBudget && !targets && !enforceTargets) {
    throw new Error(
      "--insight-token protects the pages of --insight, --scan-budget and --targets: add one of those, or leave it out.",
    );
  }
  const only = (["queueOnly", "blobOnly"] as const).find((name) => options[name]);
  const [ofTables] = given(OF_TABLES);
  if (ofTables && only && !options.tableOnly) {
    throw new Error(
      `${ofTables} needs the table service, which --${only} excludes: add --tableOnly, or leave it out.`,
    );
  }
  if (options.workers > 1) checkWorkers(options, hasCommand);
}

function checkWorkers(options: ServeOptions, hasCommand: boolean): void {
  if (hasCommand)
    throw new Error("A command can only run with a single server process: leave --workers out.");
  if (options.inMemoryPersistence) {
    throw new Error("--workers needs a data folder to share, and --inMemoryPersistence has none.");
  }
  if (isWatching(options)) {
    throw new Error("Monitoring options work in a single process only: leave --workers out.");
  }
}
