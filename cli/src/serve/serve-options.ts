import {
  REQUIRED_DURABILITIES,
  type RequiredDurability,
} from "@rowhouse/server/engine/postgres/durability";
import { SERVICE_NAMES, type ServiceName } from "@rowhouse/server/wire/service-name";
import { InvalidArgumentError, Option } from "commander";
import { configOption } from "../account.ts";
import { notEmpty } from "../not-empty.ts";
import { type WatchOptions, watchOptions } from "./watch-options.ts";

/** Where each service listens, and whether `--…Only` names it. */
type ServicePlaces = { readonly [Name in ServiceName as `${Name}Host`]: string } & {
  readonly [Name in ServiceName as `${Name}Port`]: number;
} & { readonly [Name in ServiceName as `${Name}Only`]?: true };

/** The options of `rowhouse serve`, as commander parses them. */
export interface ServeOptions extends ServicePlaces, WatchOptions {
  readonly location: string;
  readonly config?: string;
  /** The URL of a database; absent for the embedded engine. */
  readonly engine?: string;
  readonly allowUnsafeEngine?: true;
  readonly requireDurability?: RequiredDurability;
  readonly preparedStatements: boolean;
  readonly engineConnections?: number;
  /** The URL of the database's standbys. */
  readonly readStandby?: string;
  readonly inMemoryPersistence?: true;
  readonly seed?: string;
  readonly ci?: true;
  /** Where the table port is reached from elsewhere, there is no explorer without it. */
  readonly explorer?: true | "readonly";
  readonly noExplorer?: true;
  readonly explorerHost?: readonly string[];
  readonly workers: number;
  readonly lane: "node" | "fast";
  readonly silent?: true;
  readonly debug?: string | true;
  readonly cert?: string;
  readonly key?: string;
  readonly pwd?: string;
  readonly oauth?: string;
  readonly disableProductStyleUrl?: true;
  readonly forbidPublicAccess?: true;
  readonly skipDateCheck?: true;
  /** In megabytes, as given; only repeated to callers that wait for it. */
  readonly extentMemoryLimit?: string;
}

/** Every flag of `rowhouse serve`. Those of the emulator keep their names and meaning. */
export function serveOptions(): Option[] {
  return [
    new Option("-l, --location <folder>", "the folder that holds the data")
      .default("rowhouse-data")
      .argParser(notEmpty),
    configOption(),
    new Option(
      "--engine <url>",
      "store the data in PostgreSQL: postgres://USER@HOST:PORT/DATABASE",
    ).env("ROWHOUSE_ENGINE"),
    new Option("--allowUnsafeEngine", "serve even if the database could lose acknowledged writes"),
    new Option(
      "--require-durability <what>",
      "refuse writes unless the database flushes them on a standby too, or on most of its machines",
    ).choices(REQUIRED_DURABILITIES),
    new Option(
      "--no-preparedStatements",
      "use no prepared statements, for a connection pooler in transaction mode",
    ),
    new Option(
      "--engineConnections <count>",
      "maximum number of connections that write; default: 16",
    ).argParser(parseCount),
    new Option(
      "--readStandby <url>",
      "answer ACCOUNT-secondary from a standby of the database: postgres://USER@HOST:PORT/DATABASE",
    ).env("ROWHOUSE_READ_STANDBY"),
    new Option(
      "--inMemoryPersistence",
      "keep the data in memory; it is lost when the server stops",
    ),
    new Option(
      "--seed <folder>",
      "load tables, queues and blobs from a folder into the first account at the start",
    ).argParser(notEmpty),
    new Option(
      "--ci",
      "let anyone create and empty accounts over HTTP, for tests; needs --inMemoryPersistence",
    ),
    new Option(
      "--explorer [mode]",
      "serve the explorer, a page to look at tables, where others can reach the table port, too; or read-only",
    ).choices(["readonly"]),
    new Option("--noExplorer", "serve no explorer"),
    new Option(
      "--explorer-host <names...>",
      "more host names by which browsers may open the explorer",
    ).argParser((text: string, before: readonly string[] = []) => [...before, notEmpty(text)]),
    ...SERVICE_NAMES.flatMap((name) => [host(name), port(name), only(name)]),
    new Option("--workers <count>", "processes that share the ports and the data folder")
      .default(1)
      .argParser(parseCount),
    new Option(
      "--lane <lane>",
      "what reads requests: the fast lane in front of node:http, or node:http alone",
    )
      .choices(["node", "fast"])
      .default("fast"),
    new Option("-s, --silent", "log errors only; a --debug file still gets everything"),
    new Option("-d, --debug [file]", "log every request, to a file if you name one").argParser(
      notEmpty,
    ),
    new Option("--cert <file>", "TLS certificate (PEM), or a PFX archive with --pwd").argParser(
      notEmpty,
    ),
    new Option("--key <file>", "private key of the TLS certificate (PEM)").argParser(notEmpty),
    new Option("--pwd <passphrase>", "passphrase of the PFX archive, or of an encrypted key"),
    new Option("--oauth <level>", "warn when no issuer of bearer tokens is configured").choices([
      "basic",
    ]),
    new Option("--disableProductStyleUrl", "never read the account from the host name"),
    new Option(
      "--forbidPublicAccess",
      "refuse blobs to callers without credentials, whatever their container allows",
    ),
    new Option("--skipDateCheck", "accept signed requests of any date, to replay recordings"),
    ...watchOptions(),
    ...ACCEPTED.map((flags) =>
      new Option(flags, "accepted for compatibility; has no effect").hideHelp(),
    ),
  ];
}

/** Flags of the emulator that request what Rowhouse always does, or concern what it does not have. */
const ACCEPTED = [
  "-L, --loose",
  "--skipApiVersionCheck",
  "--disableTelemetry",
  "--extentMemoryLimit <megabytes>",
  "--blobKeepAliveTimeout <seconds>",
  "--queueKeepAliveTimeout <seconds>",
  "--tableKeepAliveTimeout <seconds>",
];

function host(service: string): Option {
  return new Option(`--${service}Host <host>`, `the address that the ${service} service listens on`)
    .default("127.0.0.1")
    .argParser(notEmpty);
}

function port(service: ServiceName): Option {
  return new Option(`--${service}Port <port>`, `its port; 0 picks a free one`)
    .default(PORTS[service])
    .argParser(parsePort);
}

function only(service: string): Option {
  return new Option(
    `--${service}Only`,
    `start only the ${service} service, and others named this way`,
  );
}

/** The ports at which clients expect each service with `UseDevelopmentStorage=true`. */
export const PORTS: Readonly<Record<ServiceName, number>> = {
  blob: 10000,
  queue: 10001,
  table: 10002,
};

/** The services to start: those named by `--…Only` flags, or all without such a flag. */
export function servicesOf(options: ServeOptions): readonly ServiceName[] {
  const named = SERVICE_NAMES.filter((name) => options[`${name}Only`]);
  return named.length > 0 ? named : SERVICE_NAMES;
}

export function parsePort(text: string): number {
  const port = Number(text);
  if (/^\d{1,5}$/.test(text) && port <= 65_535) return port;
  throw new InvalidArgumentError("It must be a port from 0 to 65535.");
}

function parseCount(text: string): number {
  const count = Number(text);
  if (/^\d{1,3}$/.test(text) && count >= 1) return count;
  throw new InvalidArgumentError("It must be a number from 1 to 999.");
}
