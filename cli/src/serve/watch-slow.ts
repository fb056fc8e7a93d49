import type { Insight } from "@rowhouse/server/insight/insight";
import type { Observer } from "@rowhouse/server/wire/observer";
import type { Logger } from "pino";

/** Logs queries whose page took long, with plan and cost, which show what to improve. */
export function slowInsight(thresholdMs: number, log: Logger): Partial<Insight> {
  return {
    queried({ account, table, planText: plan, client }, cost) {
      if (cost.engineMicros < thresholdMs * 1000) return;
      log.warn({ account, table, plan, client, ...cost }, "slow query");
    },
  };
}

/** Logs every other request that took long, including queries that failed in the engine, which produce no page. */
export function slowObserver(thresholdMs: number, log: Logger): Observer {
  return {
    finished(record) {
      if (record.durationMs < thresholdMs) return;
      const { account, durationMs, operation, path, requestId, status } = record;
      if (operation.startsWith("QueryEntit") && status < 500) return;
      const ms = Math.round(durationMs * 1000) / 1000;
      log.warn({ operation, requestId, account, path, status, durationMs: ms }, "slow request");
    },
  };
}
