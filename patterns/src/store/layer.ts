import type { CommitOptions } from "../ports/tables.ts";

/** A request on its way to an endpoint: every call of a port is one. */
export interface PortCall {
  readonly port: "tables" | "queues" | "blobs";
  /** `get`, `query`, `commit`, `send`, … */
  readonly method: string;
  readonly args: readonly unknown[];
}

/** Stands in front of every request: it sends it once, often or never, and gives the answer. */
export type Layer = (call: PortCall, send: () => Promise<unknown>) => Promise<unknown>;

/** The same port with the layers before each request, the first one outermost. */
export function layered<Port extends object>(
  name: PortCall["port"],
  port: Port,
  ...layers: readonly Layer[]
): Port {
  return new Proxy(port, {
    get(target, method) {
      const member: unknown = Reflect.get(target, method, target);
      if (typeof member !== "function" || typeof method !== "string") return member;
      return (...args: unknown[]) => {
        const call: PortCall = { port: name, method, args };
        // Wrapped in a promise, so that a port that throws at once is one that rejects.
        const send = async (): Promise<unknown> => await member.apply(target, args);
        const through = (next: () => Promise<unknown>, layer: Layer) => () => layer(call, next);
        return layers.reduceRight(through, send)();
      };
    },
  });
}

/** Until when a request may be sent, by the client's clock. */
export function sendByMs({ method, args }: PortCall): number {
  // The arguments are those of `TablesPort.commit`.
  const options = method === "commit" ? (args[2] as CommitOptions | undefined) : undefined;
  return options?.sendByMs ?? Number.POSITIVE_INFINITY;
}

/** The mutations of a commit; none for other requests. */
export function mutationsOf({ method, args }: PortCall): readonly unknown[] {
  return method === "commit" && Array.isArray(args[1]) ? args[1] : [];
}
