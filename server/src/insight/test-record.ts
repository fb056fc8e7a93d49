import type { RequestRecord } from "../wire/observer.ts";

/** For tests: a blob read with a key. */
export const LOGGED_RECORD: RequestRecord = {
  service: "blob",
  operation: "GetBlob",
  requestId: "request-1",
  clientRequestId: "mine",
  account: "sally",
  verb: "GET",
  path: "/sally/docs/a.txt",
  status: 200,
  errorCode: undefined,
  refusedInside: undefined,
  cause: undefined,
  durationMs: 3.2,
  remoteAddress: "10.0.0.1",
  caller: "shared-key",
  subject: undefined,
  requestBytes: 20,
  responseBytes: 300,
};
