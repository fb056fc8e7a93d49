import { spawnSync } from "node:child_process";
import { existsSync, mkdirSync, writeFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { ServerProcess } from "../harness/server-process.ts";
import type { ServiceName } from "../load/request-writer.ts";

export const AZURITE_VERSION = "3.37.0";

const FOLDER = fileURLToPath(new URL("../.peer", import.meta.url));
/** The folder with its three programs, and one that starts all three. */
export const PROGRAMS = `${FOLDER}/node_modules/.bin`;

/** The emulator, installed from npm into a folder that only the bench uses. */
export function installAzurite(): void {
  if (existsSync(PROGRAMS)) return;
  mkdirSync(FOLDER, { recursive: true });
  writeFileSync(`${FOLDER}/package.json`, '{ "private": true }\n');
  const { status } = spawnSync("npm", ["install", "--no-save", `azurite@${AZURITE_VERSION}`], {
    cwd: FOLDER,
    stdio: ["ignore", "ignore", "inherit"],
  });
  if (status !== 0) throw new Error("npm could not install azurite.");
}

/** With its normal persistence: memory, written to a file every few seconds. */
export function startAzurite(
  service: ServiceName,
  { directory, logFile }: { readonly directory: string; readonly logFile: string },
): Promise<ServerProcess> {
  return ServerProcess.start({
    service,
    cores: "server",
    logFile,
    args: (port) => [
      `${PROGRAMS}/azurite-${service}`,
      `--${service}Port`,
      `${port}`,
      "--location",
      directory,
      "--silent",
      "--disableTelemetry",
      "--skipApiVersionCheck",
    ],
  });
}
