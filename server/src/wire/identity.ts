/** An authenticated caller. `authorize` decides what it may do. */
export type Identity =
  | { readonly kind: "anonymous" }
  | { readonly kind: "shared-key" }
  | AccountSasIdentity
  | ServiceSasIdentity
  | BearerIdentity;

export interface AccountSasIdentity {
  readonly kind: "account-sas";
  /** Letters of `ss`, `srt` and `sp` as sent. */
  readonly services: string;
  readonly resourceTypes: string;
  readonly permissions: string;
}

export interface ServiceSasIdentity {
  readonly kind: "service-sas";
  /** Letters granted, from the token or its stored policy. */
  readonly permissions: string;
  /** Table SAS only: the table it was signed for, in lower case; the path of `$batch` names none. */
  readonly table: string | undefined;
  /** Table SAS only: the entities it gives access to. */
  readonly keyRange: SasKeyRange | undefined;
  /** Blob SAS only: the response headers it overrides, names and values alternating. */
  readonly responseHeaders: readonly string[];
}

/** Both ends inclusive, compared as UTF-16 code units. A row key always comes with its partition key. */
export interface SasKeyRange {
  readonly startPartitionKey: string | undefined;
  readonly startRowKey: string | undefined;
  readonly endPartitionKey: string | undefined;
  readonly endRowKey: string | undefined;
}

export interface BearerIdentity {
  readonly kind: "bearer";
  /** "none": the token is genuine but grants nothing here. */
  readonly role: "reader" | "contributor" | "none";
  readonly subject: string;
}
