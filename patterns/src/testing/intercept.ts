import type { BlobsPort } from "../ports/blobs.ts";
import { PortError } from "../ports/port-error.ts";
import type { QueuesPort } from "../ports/queues.ts";
import type { TablesPort } from "../ports/tables.ts";
import { type Layer, layered, type PortCall } from "../store/layer.ts";

export interface Ports {
  readonly tables: TablesPort;
  readonly queues: QueuesPort;
  readonly blobs: BlobsPort;
}

/** The same ports with `layer` around each request, for any endpoint. */
export function intercept(ports: Ports, layer: Layer): Ports {
  return {
    tables: layered("tables", ports.tables, layer),
    queues: layered("queues", ports.queues, layer),
    blobs: layered("blobs", ports.blobs, layer),
  };
}

/** A fault that a test can inject into a request. */
export type Fault =
  | { readonly kind: "fail" }
  /** The request takes effect, but its answer never arrives. */
  | { readonly kind: "lose answer" }
  | { readonly kind: "refuse"; readonly status: number; readonly code: string }
  /** The request arrives twice, as in a repeated transmission. */
  | { readonly kind: "duplicate" };

/** Injects the fault that `choose` returns for a call, if any. `count` starts at 1. */
export function withFaults(choose: (call: PortCall, count: number) => Fault | undefined): Layer {
  let count = 0;
  return async (call, send) => {
    const fault = choose(call, ++count);
    switch (fault?.kind) {
      case undefined:
        return send();
      case "fail":
        throw new PortError("The connection was refused.", { status: 0, code: "ECONNREFUSED" });
      case "lose answer":
        // A refusal is an answer too, and is lost as well.
        await send().catch(() => undefined);
        throw new PortError("The connection was reset.", { status: 0, code: "ECONNRESET" });
      case "refuse":
        throw new PortError(`The service answers ${fault.status} ${fault.code}.`, fault);
      case "duplicate":
        await send().catch(() => undefined);
        return send();
    }
  };
}
