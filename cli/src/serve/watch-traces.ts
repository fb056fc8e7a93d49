import { createRequire } from "node:module";
import { join } from "node:path";
import { isTraceApi, type TraceApi } from "@rowhouse/server/insight/traces";

/**
 * The tracing API as the current folder has it installed, so that it is the very one whose SDK was
 * set up there (`node --import ./tracing.mjs`). Loaded only when it is asked for.
 * @throws Error when it is not installed
 */
export function loadTraceApi(): TraceApi {
  const require = createRequire(join(process.cwd(), "package.json"));
  let found: unknown;
  try {
    found = require("@opentelemetry/api");
  } catch (cause) {
    throw new Error("--otel needs @opentelemetry/api, which is not installed here.", { cause });
  }
  if (isTraceApi(found)) return found;
  throw new Error("--otel: the @opentelemetry/api installed here is not one of version 1.");
}
