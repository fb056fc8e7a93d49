import { createRequire } from "node:module";
import { join } from "node:path";
import { isTraceApi, type TraceApi } from "@rowhouse/server/insight/traces";

/**
 * Loads the tracing API that is installed in the current folder, so that it is the same copy that the SDK was set
 * up with (`node --import ./tracing.mjs`).
 * @throws Error if it is not installed, or is not version 1.
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
