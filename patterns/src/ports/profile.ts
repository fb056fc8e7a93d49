/** How endpoints differ. Patterns ask the profile, never the URL. */
export interface Profile {
  readonly name: ProfileName;
  /** Rows of a partition come back in key order. */
  readonly ordered: boolean;
  readonly rowKeyLengthMax: number;
  readonly transactionBytesMax: number;
  /** Property names that cannot be used, in lower case. */
  readonly reservedProperties: readonly string[];
}

export type ProfileName = "azure" | "cosmos" | "azurite" | "rowhouse";

const RESERVED = ["partitionkey", "rowkey", "timestamp"];

const azure: Profile = {
  name: "azure",
  ordered: true,
  rowKeyLengthMax: 512,
  transactionBytesMax: 4 * 1024 * 1024,
  reservedProperties: RESERVED,
};

export const PROFILES: Readonly<Record<ProfileName, Profile>> = {
  azure,
  azurite: { ...azure, name: "azurite" },
  rowhouse: { ...azure, name: "rowhouse" },
  cosmos: {
    name: "cosmos",
    ordered: false,
    rowKeyLengthMax: 255,
    transactionBytesMax: 2 * 1024 * 1024,
    reservedProperties: [...RESERVED, "id", "rid", "etag", "resourceid"],
  },
};
