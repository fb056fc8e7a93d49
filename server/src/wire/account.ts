/** A storage account that this server serves. Immutable: changed keys make a new object. */
export interface Account {
  /** 3 to 24 lower-case letters and digits. */
  readonly name: string;
  /** One or two shared keys, decoded from base64. Either is valid. */
  readonly keys: readonly Uint8Array[];
  /** The account exists, but every request is refused with AccountIsDisabled. */
  readonly disabled?: boolean;
}
