import type { EdmType } from "@rowhouse/protocol/edm";
import type { TextBound } from "@rowhouse/protocol/json-string";

/**
 * Access to a stored entity for predicates and projections, without decoding it. One view is reused
 * for all entities of a scan. A property is identified by its index, valid until the view moves on.
 */
export interface EntityView {
  readonly partitionKey: string;
  readonly rowKey: string;
  /** Ticks of 100 ns since 0001-01-01, like every DateTime here. */
  readonly timestampTicks: bigint;

  /** Index of the custom property with this name, encoded by `encodeName`; -1 if it is missing. */
  find(name: Uint8Array): number;
  typeOf(index: number): EdmType;

  /** The text of an Edm.String, or of an Edm.Guid in lower case. */
  text(index: number): string;
  /** Whether the property's stored JSON equals these bytes: tests strings without decoding. */
  jsonEquals(index: number, json: Uint8Array): boolean;
  /** The order of `text` of the property and another text: negative, 0 or positive. */
  compareText(index: number, bound: TextBound): number;
  comparePartitionKey(bound: TextBound): number;
  compareRowKey(bound: TextBound): number;
  /** The order of an Edm.DateTime and another, which `printDateTime` printed. */
  compareDateTime(index: number, printed: Uint8Array): number;
  /** Edm.Int32, Edm.Double, or Edm.Boolean as 0 or 1. */
  number(index: number): number;
  /** Edm.Int64. */
  bigint(index: number): bigint;
  /** Edm.Binary. */
  bytes(index: number): Uint8Array;
}
