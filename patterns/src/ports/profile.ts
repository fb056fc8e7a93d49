/** How endpoints differ. Patterns ask the profile, never the URL. */
export interface Profile {
  readonly name: ProfileName;
  /** Rows of a partition come back in key order. */
  readonly ordered: boolean;
  readonly rowKeyLengthMax: number;
  readonly transactionBytesMax: number;
}

export type ProfileName = "azure" | "cosmos" | "azurite" | "rowhouse";

const MIB = 1024 * 1024;

export function profileOf(name: ProfileName): Profile {
  return name === "cosmos"
    ? { name, ordered: false, rowKeyLengthMax: 255, transactionBytesMax: 2 * MIB }
    : { name, ordered: true, rowKeyLengthMax: 512, transactionBytesMax: 4 * MIB };
}
