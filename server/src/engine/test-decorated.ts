import type { Engine, Supports } from "./engine.ts";

/**
 * `engine` with some members of the caller's own. Every other member is that of `engine`, so a decorator cannot forget
 * one. One that leaves out a member sets it to undefined, and says so in `supports`.
 */
export function decorated(
  engine: Engine,
  own: { readonly [Member in keyof Engine]?: Engine[Member] | undefined },
): Engine {
  return new Proxy(engine, {
    get(inner, name) {
      if (Object.hasOwn(own, name)) return Reflect.get(own, name);
      const member: unknown = Reflect.get(inner, name, inner);
      return typeof member === "function" ? member.bind(inner) : member;
    },
  });
}

/** Of a decorator that passes on none of the optional members. */
export const NOTHING_OPTIONAL: Supports = {
  update: false,
  scanRanges: false,
  sharing: false,
  sealing: false,
  freePremises: false,
};
