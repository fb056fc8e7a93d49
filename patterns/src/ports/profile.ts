/** How endpoints differ. Patterns ask the profile, never the URL. */
export interface Profile {
  readonly name: ProfileName;
  /** Rows of a partition come back in key order. */
  readonly ordered: boolean;
  readonly rowKeyLengthMax: number;
  readonly transactionBytesMax: number;
}

const NAMES = ["azure", "cosmos", "azurite", "rowhouse"] as const;

export type ProfileName = (typeof NAMES)[number];

const MIB = 1024 * 1024;

export function profileOf(name: ProfileName): Profile {
  // A misspelled Cosmos would pass for an endpoint that returns rows in order.
  if (!NAMES.includes(name)) {
    throw new TypeError(`"${name}" is not a profile: use ${NAMES.join(", ")}.`);
  }
  return name === "cosmos"
    ? { name, ordered: false, rowKeyLengthMax: 255, transactionBytesMax: 2 * MIB }
    : { name, ordered: true, rowKeyLengthMax: 512, transactionBytesMax: 4 * MIB };
}
