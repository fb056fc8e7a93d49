/** A storage account this server answers for. The object never changes: other keys are another one. */
export interface Account {
  /** 3 to 24 lower-case letters and digits. */
  readonly name: string;
  /** One or two shared keys, decoded from base64. Either is good. */
  readonly keys: readonly Uint8Array[];
  /** Known, but every request is refused with AccountIsDisabled. */
  readonly disabled?: boolean;
}
