/**
 * What starts the emulator elsewhere, and what each then waits for, as their sources have it (August 2026). The three
 * ports stand for 10000, 10001 and 10002, which may be taken where this runs.
 */
export interface StartedBy {
  readonly module: string;
  /** The command line in its container. `{blob}`, `{queue}` and `{table}` are ports. */
  readonly argv: readonly string[];
  readonly environment?: Readonly<Record<string, string>>;
  /** What each line of standard output must match before the module goes on, each of some line. */
  readonly waitsFor?: readonly RegExp[];
  /** What the very first line must match. */
  readonly firstLine?: RegExp;
  /** A line that must be there exactly, with ports as above. */
  readonly waitsForExactly?: string;
  /** Whether the module waits until the ports accept connections. */
  readonly waitsForPorts?: boolean;
  /** The account and key that its clients use; default: the development account. */
  readonly account?: readonly [name: string, key: string];
  /** The services that it starts; default: all. */
  readonly services?: readonly ("blob" | "queue" | "table")[];
}

const HOSTS = ["--blobHost", "0.0.0.0", "--queueHost", "0.0.0.0", "--tableHost", "0.0.0.0"];
const PORTS = ["--blobPort", "{blob}", "--queuePort", "{queue}", "--tablePort", "{table}"];
const SENTENCES = ["Blob", "Queue", "Table"].map(
  (service) => new RegExp(`.*${service} service is successfully listening.*`),
);
const KEY = "c29tZSBrZXk=";

export const CONTRACT: readonly StartedBy[] = [
  {
    module: "@testcontainers/azurite (Node)",
    argv: ["azurite", ...HOSTS, ...PORTS],
    waitsFor: SENTENCES,
  },
  {
    module: "@testcontainers/azurite (Node), in memory, with its own account",
    argv: [
      ...["azurite", ...HOSTS, ...PORTS, "--inMemoryPersistence", "--extentMemoryLimit", "64"],
      "--skipApiVersionCheck",
    ],
    environment: { AZURITE_ACCOUNTS: `mine:${KEY}` },
    waitsFor: SENTENCES,
    account: ["mine", KEY],
  },
  {
    module: "Testcontainers.Azurite (.NET), in memory, on a German machine",
    argv: ["azurite", ...HOSTS, ...PORTS, "--inMemoryPersistence", "--extentMemoryLimit", "64,5"],
    waitsFor: SENTENCES,
    firstLine: /^In-memory extent storage is enabled with a limit of 64\.50 MB/,
  },
  {
    module: "AzuriteContainer (Java)",
    argv: ["azurite", ...HOSTS, ...PORTS],
    waitsForPorts: true,
  },
  {
    module: "modules/azure/azurite (Go), in memory",
    argv: [
      ...["azurite", ...HOSTS, ...PORTS],
      ...["--inMemoryPersistence", "--extentMemoryLimit", "64.000000"],
    ],
    waitsForPorts: true,
  },
  {
    module: "modules/azure/azurite (Go), one service",
    argv: ["azurite-queue", "--queueHost", "0.0.0.0", "--queuePort", "{queue}"],
    waitsForPorts: true,
    services: ["queue"],
  },
  {
    module: "modules/azure/azurite (Go), blobs alone",
    argv: ["azurite-blob", "--blobHost", "0.0.0.0", "--blobPort", "{blob}"],
    waitsForPorts: true,
    services: ["blob"],
  },
  {
    module: "testcontainers.community.azurite (Python)",
    argv: ["azurite", "-l", "data", ...HOSTS, ...PORTS],
    environment: { AZURITE_ACCOUNTS: `devstoreaccount1:${KEY}` },
    waitsForPorts: true,
    account: ["devstoreaccount1", KEY],
  },
  {
    module: "testcontainers-modules (Rust)",
    argv: ["azurite", ...HOSTS, ...PORTS, "--loose", "--skipApiVersionCheck", "--disableTelemetry"],
    waitsForExactly: "Azurite Table service is successfully listening at http://0.0.0.0:{table}",
  },
  {
    module: "wasmCloud's test utilities",
    argv: ["azurite", "-l", "data", ...HOSTS, ...PORTS, "--loose"],
    waitsFor: [/Azurite Blob service is successfully listening/],
  },
  {
    module: "RunAsEmulator (Aspire)",
    argv: [
      ...["azurite", "-l", "data", ...HOSTS, ...PORTS],
      ...["--disableProductStyleUrl", "--skipApiVersionCheck"],
    ],
    waitsForPorts: true,
  },
  {
    module: "a script that repeats the command's name and has a flag that nobody knows",
    argv: ["azurite", "azurite", "-s", "-l", "data", "--newFlag", "5", ...HOSTS, ...PORTS],
    waitsFor: SENTENCES,
  },
];
