import type { RequestRecord } from "../wire/observer.ts";

/**
 * The small part of the standard tracing API used here, so that nothing needs to be installed to compile or
 * run. `@opentelemetry/api` 1.x matches it.
 */
export interface TraceApi {
  readonly trace: {
    getTracer(name: string): {
      startSpan(name: string, options: SpanOptions): Span;
    };
  };
}

interface SpanOptions {
  /** 1 means a server's span. */
  readonly kind: number;
  readonly startTime: number;
  readonly root: boolean;
  readonly attributes: Readonly<Record<string, string | number>>;
}

interface Span {
  setStatus(status: { code: number; message?: string }): unknown;
  end(endTime: number): void;
}

const SERVER_KIND = 1;
const STATUS_ERROR = 2;

/** Whether a module that was loaded by name is the tracing API. */
export function isTraceApi(module: unknown): module is TraceApi {
  const trace = property(module, "trace");
  return typeof property(trace, "getTracer") === "function";
}

function property(value: unknown, name: string): unknown {
  if (typeof value !== "object" || value === null) return undefined;
  return Reflect.get(value, name);
}

/**
 * Creates one span per request, begun and ended once its answer is known, so that spans cost nothing before.
 * Each is a root span; the ids of the client's and the server's request are attributes, as in the log.
 */
export function tracingObserver(
  api: TraceApi,
  now: () => number,
): { finished(record: RequestRecord): void } {
  const tracer = api.trace.getTracer("rowhouse");
  return {
    finished(record) {
      const endTime = now();
      const span = tracer.startSpan(record.operation || record.verb, {
        kind: SERVER_KIND,
        root: true,
        startTime: endTime - record.durationMs,
        attributes: {
          "http.request.method": record.verb,
          "http.response.status_code": record.status,
          "client.address": record.remoteAddress,
          "rowhouse.service": record.service,
          "rowhouse.account": record.account,
          "rowhouse.request_id": record.requestId,
          ...(record.clientRequestId === undefined
            ? {}
            : { "rowhouse.client_request_id": record.clientRequestId }),
          ...(record.errorCode === undefined ? {} : { "error.type": record.errorCode }),
        },
      });
      if (record.status >= 500) span.setStatus({ code: STATUS_ERROR });
      span.end(endTime);
    },
  };
}
