import type { KeyDeclaration, KeyPart, LaidOut, Literal, Segment } from "../keys/key.ts";

/**
 * The parts of a declaration in either form. (A constraint on `Key` would make every index intersect its key
 * with the constraint: 90 instantiations each.)
 */
export type PartsOf<Key> =
  Key extends LaidOut<infer Parts, unknown> ? Parts : Key extends readonly KeyPart[] ? Key : never;

type SegmentsIn<Parts extends readonly KeyPart[]> = Exclude<Parts[number], Literal>;

/** Equality on every segment. */
export type KeyEquality<Key> = {
  [S in SegmentsIn<PartsOf<Key>> as S["name"]]: S["type"];
};

/** The left-prefix rule: equality on leading segments, then at most one range on the next. */
export type RowQuery<Key> = Prefix<
  PartsOf<Key>,
  Key extends LaidOut<readonly KeyPart[], infer L> ? L : "bare"
>;

/**
 * `L` is "bare" for a plain list and "text seen" after its first text segment; a second one makes the layout
 * ordered, see `KeyShape`.
 */
type Prefix<Parts extends readonly KeyPart[], L> = Parts extends readonly [
  infer Head,
  ...infer Rest extends readonly KeyPart[],
]
  ? Head extends Segment
    ? Rest extends readonly []
      ? { [P in Head["name"]]?: Head["type"] | RangeOf<Head["type"], Head, Rest, L> }
      :
          | ({ [P in Head["name"]]?: RangeOf<Head["type"], Head, Rest, L> } & Unbound<Rest>)
          | ({ [P in Head["name"]]: Head["type"] } & Prefix<Rest, After<Head, L>>)
    : Prefix<Rest, L>
  : unknown;

type Unbound<Rest extends readonly KeyPart[]> = {
  [P in SegmentsIn<Rest>["name"]]?: never;
};

type After<Head extends Segment, L> = L extends "bare"
  ? Head["form"] extends "text"
    ? "text seen"
    : L
  : L;

type RangeOf<Value, Head extends Segment, Rest extends readonly KeyPart[], L> = {
  fixed: Bounds<Value>;
  hashed: never;
  text: Rest extends readonly []
    ? Bounds<Value> | StartsWith
    : L extends "ordered" | "text seen"
      ? Bounds<Value> | StartsWith
      : L extends "readable"
        ? StartsWith
        : "text" extends SegmentsIn<Rest>["form"]
          ? Bounds<Value> | StartsWith
          : StartsWith;
}[Head["form"]];

export interface Bounds<Value> {
  readonly gt?: Value;
  readonly gte?: Value;
  readonly lt?: Value;
  readonly lte?: Value;
  readonly startsWith?: never;
}

export interface StartsWith {
  readonly startsWith: string;
  readonly gt?: never;
  readonly gte?: never;
  readonly lt?: never;
  readonly lte?: never;
}

/** Resolves to unknown when every segment's field is required and has the segment's type. */
export type CheckedKey<Key extends KeyDeclaration, T> =
  T extends KeyFields<Key>
    ? unknown
    : {
        readonly ERROR: "A segment's field is missing, optional or of another type";
        readonly needed: KeyFields<Key>;
      };

/** The names of the fields that a key is made of, without those that `each` computes. */
export type FieldNames<Key, E = never> = Exclude<SegmentsIn<PartsOf<Key>>["field"], E>;

type KeyFields<Key> = { [S in SegmentsIn<PartsOf<Key>> as S["field"]]: S["type"] };
