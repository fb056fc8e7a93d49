import type { EdmType } from "@rowhouse/protocol/edm";

/**
 * How predicates and projections look into a stored entity without decoding it. One view is reused
 * for every entity of a scan; a property is named by its index, valid until the view moves on.
 */
export interface EntityView {
  readonly partitionKey: string;
  readonly rowKey: string;
  /** 100 ns ticks since 0001-01-01, as every DateTime here. */
  readonly timestampTicks: bigint;

  /** Index of the custom property with this name, encoded by `encodeName`; -1 when it is absent. */
  find(name: Uint8Array): number;
  typeOf(index: number): EdmType;

  /** Edm.String; Edm.Guid in lower-case text. */
  text(index: number): string;
  /** Whether the property's stored JSON text equals these bytes: string equality without decoding. */
  jsonEquals(index: number, json: Uint8Array): boolean;
  /** Edm.Int32, Edm.Double; Edm.Boolean as 0 or 1. */
  number(index: number): number;
  /** Edm.Int64; Edm.DateTime in ticks. */
  bigint(index: number): bigint;
  /** Edm.Binary. */
  bytes(index: number): Uint8Array;
}
