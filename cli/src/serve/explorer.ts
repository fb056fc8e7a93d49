import { createHash, randomBytes, timingSafeEqual } from "node:crypto";
import { hostname } from "node:os";
import type { Accounts } from "@rowhouse/server/auth/accounts";
import type { BackgroundWork } from "@rowhouse/server/catalog/background-loop";
import { systemClock } from "@rowhouse/server/clock";
import type { Engine } from "@rowhouse/server/engine/engine";
import type { BulkJobs } from "@rowhouse/server/explorer/bulk-jobs";
import type { ExplorerInsight } from "@rowhouse/server/explorer/explorer-insight";
import type { ExplorerPage } from "@rowhouse/server/explorer/explorer-page";
import { OWN_PATH, type Page, type PageRequest, textAnswer } from "@rowhouse/server/http/pages";
import type { RunningServer } from "@rowhouse/server/server";
import { reachesThisMachineOnly } from "./loopback.ts";
import { madeOnce } from "./made-once.ts";
import type { ServeOptions } from "./serve-options.ts";

const LINK_BYTES = 18;

export interface Explorer {
  readonly pages: readonly Page[];
  /** What people began in it and left. */
  readonly background: BackgroundWork;
  /** Where to open it: with a token that logs in once, or without one where it could be used from elsewhere. */
  address(tableUrl: string): string;
}

interface ExplorerParts {
  readonly accounts: Accounts;
  readonly engine: Engine;
  /** Undefined until it has started. */
  readonly server: () => RunningServer | undefined;
  /** What the server watched. */
  readonly insight: ExplorerInsight | undefined;
  readonly onError: (error: unknown) => void;
}

/** Only where this machine alone reaches the table port, or where `--explorer` asks for it. */
export function offersExplorer({ explorer, noExplorer, tableHost }: ServeOptions): boolean {
  return !noExplorer && (reachesThisMachineOnly(tableHost) || explorer !== undefined);
}

/**
 * The explorer on the table port: where only this machine reaches it, or where `--explorer` asks for it. Its modules are
 * loaded by the first request for it, so whoever does not use it does not pay for it.
 */
export function openExplorer(
  options: ServeOptions,
  { accounts, engine, server, insight, onError }: ExplorerParts,
): Explorer | undefined {
  const isLocal = reachesThisMachineOnly(options.tableHost);
  if (!offersExplorer(options)) return undefined;
  let link = isLocal && options.workers === 1 ? randomBytes(LINK_BYTES).toString("base64url") : "";
  const takeLink = (token: string) => {
    const isRight = link !== "" && timingSafeEqual(digest(token), digest(link));
    if (isRight) link = "";
    return isRight;
  };
  let jobs: BulkJobs | undefined;
  const load = madeOnce(async (running: RunningServer): Promise<ExplorerPage> => {
    const [{ ExplorerPage }, { BulkJobs }, { assets }] = await Promise.all([
      import("@rowhouse/server/explorer/explorer-page"),
      import("@rowhouse/server/explorer/bulk-jobs"),
      import("@rowhouse/explorer/assets"),
    ]);
    jobs = new BulkJobs({ engine, clock: systemClock, onError });
    return new ExplorerPage({
      accounts,
      jobs,
      assets,
      clock: systemClock,
      handle: running.handles.get("table")!,
      others: { queue: running.handles.get("queue"), blob: running.handles.get("blob") },
      isReadOnly: options.explorer === "readonly",
      hosts: [options.tableHost, hostname(), ...(options.explorerHost ?? [])].map((name) =>
        name.toLowerCase(),
      ),
      takeLink,
      insight,
    });
  });
  const answer = async (request: PageRequest) => {
    const running = server();
    if (!running) return textAnswer(503, "The server is starting.\n");
    return (await load(running)).answer(request);
  };
  const methods = { GET: answer, POST: answer, PUT: answer, DELETE: answer };
  return {
    pages: [{ path: OWN_PATH, methods }],
    background: { start() {}, close: async () => jobs?.close() },
    address: (tableUrl) => `${tableUrl}${OWN_PATH}${link && `#link=${link}`}`,
  };
}

function digest(text: string): Buffer {
  return createHash("sha256").update(text).digest();
}
