import { isTooLate, tooLate } from "../ports/port-error.ts";
import type { Deadline } from "../ports/tables.ts";
import type { Clock } from "./clock.ts";

/** A request to an endpoint: every call of a port is one. */
export interface PortCall {
  readonly port: "tables" | "queues" | "blobs";
  /** `get`, `query`, `commit`, `send`, … */
  readonly method: string;
  readonly args: readonly unknown[];
}

/** Runs instead of each request. It may send the request any number of times, and returns the answer. */
export type Layer = (call: PortCall, send: Send) => Promise<unknown>;

/** Sends the request, with other arguments if they are given. */
type Send = (args?: readonly unknown[]) => Promise<unknown>;

/** The same port with the layers around each request, the first one outermost. */
export function layered<Port extends object>(
  name: PortCall["port"],
  port: Port,
  ...layers: readonly Layer[]
): Port {
  const methods = new Map<unknown, { readonly member: unknown; readonly through: unknown }>();
  return new Proxy(port, {
    get(target, method) {
      const member: unknown = Reflect.get(target, method, target);
      if (typeof member !== "function" || typeof method !== "string") return member;
      const known = methods.get(method);
      if (known?.member === member) return known.through;
      const send = (args: readonly unknown[]): Promise<unknown> => {
        try {
          return Promise.resolve(member.apply(target, args));
        } catch (error) {
          return Promise.reject(error);
        }
      };
      const chain = layers.reduceRight<typeof send>(
        (next, layer) => (args) =>
          layer({ port: name, method, args }, (others = args) => next(others)),
        send,
      );
      const through = (...args: unknown[]) => chain(args);
      methods.set(method, { member, through });
      return through;
    },
  });
}

/** Returns the time until which requests may be sent, in milliseconds since 1970. Called before each request. */
export type ByMs = () => number | Promise<number>;

/** The argument that holds the `Deadline` of the writes that can be bounded in time. */
const OPTIONS_AT: Readonly<Record<string, Readonly<Record<string, number>>>> = {
  tables: { commit: 2 },
  blobs: { put: 3, delete: 2 },
};

/** The deadline among the call's arguments. */
export function deadlineOf({ port, method, args }: PortCall): Deadline {
  const at = OPTIONS_AT[port]?.[method];
  return at === undefined ? {} : Object(args[at]);
}

/** The latest time at which a request may be sent, by the client's clock. */
export function sendByMs(call: PortCall): number {
  return deadlineOf(call).sendByMs ?? Number.POSITIVE_INFINITY;
}

/** The arguments of the call with `deadline`, where they can hold one. */
function argsWith({ port, method, args }: PortCall, deadline: Deadline): readonly unknown[] {
  const at = OPTIONS_AT[port]?.[method];
  if (at === undefined) return args;
  const others = args.slice();
  others[at] = { ...Object(args[at]), ...deadline };
  return others;
}

/**
 * Sends nothing after the time that `byMs` returns. If that time passes while the request waits for its turn,
 * or for `byMs` itself, calls `byMs` again, as long as it returns a later time.
 */
export function inTime(clock: Clock, byMs: ByMs): Layer {
  return async (call, send) => {
    for (let last = Number.NEGATIVE_INFINITY; ; ) {
      const until = Math.min(await byMs(), sendByMs(call));
      try {
        if (until < clock.now()) throw tooLate();
        return await send(argsWith(call, { sendByMs: until }));
      } catch (error) {
        if (!isTooLate(error) || !(until > last)) throw error;
        last = until;
      }
    }
  };
}

/**
 * The arguments for a call that is sent now: they make the service refuse a write that is delayed beyond its
 * deadline.
 * @throws PortError after the deadline.
 */
export function argsInTime(clock: Clock, call: PortCall): readonly unknown[] {
  const byMs = sendByMs(call);
  if (byMs === Number.POSITIVE_INFINITY) return call.args;
  const leftMs = byMs - clock.now();
  if (!(leftMs >= 0)) throw tooLate();
  const { timeoutS = leftMs } = deadlineOf(call);
  return argsWith(call, { timeoutS: Math.min(timeoutS, Math.floor(leftMs / 1000)) || 1 });
}

/** The mutations of a commit; none for other requests. */
export function mutationsOf({ method, args }: PortCall): readonly unknown[] {
  return method === "commit" && Array.isArray(args[1]) ? args[1] : [];
}
