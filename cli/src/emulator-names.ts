import { basename } from "node:path";
import { SERVICE_NAMES, type ServiceName } from "@rowhouse/server/wire/service-name";
import { serveOptions } from "./serve/serve-options.ts";

/** The emulator's commands, and the services that each starts. */
const NAMES: Readonly<Record<string, readonly ServiceName[]>> = {
  azurite: SERVICE_NAMES,
  "azurite-blob": ["blob"],
  "azurite-queue": ["queue"],
  "azurite-table": ["table"],
};

/**
 * The emulator's command that this program was started as, from a link to it: the container image and the executable
 * bring such links, so that whatever starts the emulator can start this instead. Undefined for `rowhouse`.
 * @param argv as in `process.argv`
 * @param argv0 as in `process.argv0`, which alone has the name by which an executable was started
 */
export function emulatorName(
  argv: readonly string[] = process.argv,
  argv0: string = process.argv0,
): string | undefined {
  return [argv[1] ?? "", argv0].map((path) => basename(path)).find((name) => name in NAMES);
}

/**
 * The arguments of `rowhouse serve` for a command line of the emulator. What the emulator has and this has not is left
 * out, with a warning: containers are started with flags of every version, and must not end for one.
 */
export function serveArguments(
  name: string,
  args: readonly string[],
): { readonly args: readonly string[]; readonly warnings: readonly string[] } {
  const taking = new Map(
    serveOptions().flatMap((option) =>
      [option.short, option.long].flatMap((flag) => (flag ? [[flag, option]] : [])),
    ) as [string, { required: boolean; optional: boolean }][],
  );
  const services = NAMES[name] ?? SERVICE_NAMES;
  const kept =
    services.length < SERVICE_NAMES.length ? services.map((each) => `--${each}Only`) : [];
  const warnings: string[] = [];
  for (let i = 0; i < args.length; i++) {
    const arg = args[i]!;
    const [flag = ""] = arg.split("=", 1);
    const next = args[i + 1];
    const hasValue = !arg.includes("=") && next !== undefined && !next.startsWith("-");
    const option = taking.get(flag);
    if (option) {
      kept.push(arg);
      if (
        (option.required && !arg.includes("=") && next !== undefined) ||
        (option.optional && hasValue)
      )
        kept.push(args[++i]!);
    } else if (!(i === 0 && arg in NAMES)) {
      // Some modules repeat the command's name, which the emulator ignores too.
      warnings.push(`${arg} is unknown, and ignored`);
      if (arg.startsWith("-") && hasValue) i++;
    }
  }
  return { args: ["serve", ...kept], warnings };
}

/** The first line of the emulator with `--inMemoryPersistence`, which a module asserts. */
export function memoryLine(megabytes: string | undefined): string {
  // Some callers print the number as their language does: 64,5.
  const limit = Number((megabytes ?? "64").replace(",", "."));
  return `In-memory extent storage is enabled with a limit of ${limit.toFixed(2)} MB`;
}
