import { validationFailed } from "../errors.ts";
import type { KeyShape } from "../keys/key-shape.ts";
import { padded } from "../keys/number.ts";
import { base64Of, bytesOf, type EdmValue, text } from "../ports/edm.ts";

/**
 * How one property holds ids of one width: as text separated by commas, as a JSON array of texts, or in 4 bytes
 * for each id, which must then be a decimal number.
 */
export type ListEncodingName = "csv" | "json" | "packed";

export interface ListEncoding {
  /** In characters; two bytes count as one. */
  lengthOf(ids: readonly string[]): number;
  encode(ids: readonly string[]): EdmValue;
  /** A value that is no list of this encoding, which other software may leave, has no ids. */
  decode(stored: EdmValue, width: number): string[];
}

const PACKED_MAX = 0xffff_ffff;
const PACKED_BYTES = 4;

export const LIST_ENCODINGS: Readonly<Record<ListEncodingName, ListEncoding>> = {
  csv: {
    lengthOf: (ids) => ids.join().length,
    encode: (ids) => text(ids.join()),
    decode: ({ value }) => String(value).split(",").filter(Boolean),
  },
  json: {
    lengthOf: (ids) => JSON.stringify(ids).length,
    encode: (ids) => text(JSON.stringify(ids)),
    decode: ({ value }) => textsIn(String(value)),
  },
  packed: {
    lengthOf: (ids) => (ids.length * PACKED_BYTES) / 2,
    encode(ids) {
      const view = new DataView(new ArrayBuffer(ids.length * PACKED_BYTES));
      for (const [i, id] of ids.entries()) {
        if (Number(id) > PACKED_MAX) {
          throw validationFailed("A packed list", id, `is more than ${PACKED_MAX}`);
        }
        view.setUint32(i * PACKED_BYTES, Number(id));
      }
      return { type: "Binary", value: base64Of(new Uint8Array(view.buffer)) };
    },
    decode({ type, value }, width) {
      if (type !== "Binary") return [];
      const { buffer, byteLength } = bytesOf(String(value));
      const view = new DataView(buffer);
      return Array.from({ length: Math.floor(byteLength / PACKED_BYTES) }, (_, i) =>
        padded(view.getUint32(i * PACKED_BYTES), width),
      );
    },
  },
};

/** Rows of other software name no encoding: they use commas. */
export function encodingNamed(name: unknown): ListEncoding {
  return name === "json" || name === "packed" ? LIST_ENCODINGS[name] : LIST_ENCODINGS.csv;
}

/** The number of digits of ids that can be packed, which consist of digits only; undefined for other ids. */
export function digitsOf(row: KeyShape): number | undefined {
  const idOf = (value: number) => {
    try {
      return row.encode({ [row.segments[0]?.field ?? ""]: value }).slice(row.prefix.length);
    } catch {
      return undefined;
    }
  };
  const zero = idOf(0) ?? "";
  return /^\d{1,10}$/.test(zero) && idOf(-1) === undefined ? zero.length : undefined;
}

/** How many ids of this width fit. */
export function idsThatFit({ lengthOf }: ListEncoding, id: string, lengthMax: number): number {
  const one = lengthOf([id]);
  return Math.max(0, 1 + Math.floor((lengthMax - one) / (lengthOf([id, id]) - one)));
}

function textsIn(json: string): string[] {
  try {
    const found: unknown = JSON.parse(json);
    return Array.isArray(found) ? found.filter((id) => typeof id === "string") : [];
  } catch {
    return [];
  }
}
