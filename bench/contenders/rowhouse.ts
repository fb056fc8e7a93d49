import { fileURLToPath } from "node:url";
import type { Cores } from "../harness/cores.ts";
import { ServerProcess } from "../harness/server-process.ts";
import type { ServiceName } from "../load/request-writer.ts";

/** The compiled command. */
export const MAIN = fileURLToPath(new URL("../../cli/dist/main.js", import.meta.url));

export interface RowhouseOptions {
  readonly service: ServiceName;
  readonly directory: string;
  readonly logFile: string;
  readonly cores?: Cores;
  readonly workers?: number;
  readonly node?: string;
  /** More flags for `rowhouse serve`. */
  readonly flags?: readonly string[];
}

/** Rowhouse as it is shipped: compiled, with its default engine and durability. */
export function startRowhouse(options: RowhouseOptions): Promise<ServerProcess> {
  const { cores = "server", directory, flags = [], logFile, node, service, workers } = options;
  return ServerProcess.start({
    service,
    cores,
    logFile,
    node,
    args: (port) => [
      MAIN,
      "serve",
      `--${service}Only`,
      `--${service}Port`,
      `${port}`,
      ...(flags.includes("--engine") ? [] : ["--location", directory]),
      "--silent",
      ...flags,
      ...(workers === undefined ? [] : ["--workers", `${workers}`]),
    ],
  });
}
