/** Who is asking, once proven. What each may do is decided by `authorize`. */
export type Identity =
  | { readonly kind: "anonymous" }
  | { readonly kind: "shared-key" }
  | AccountSasIdentity
  | ServiceSasIdentity
  | { readonly kind: "bearer"; readonly role: "reader" | "contributor"; readonly subject: string };

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
  /** Table SAS only: the entities it reaches. */
  readonly keyRange: SasKeyRange | undefined;
  /** Blob SAS only: `b` or `c`, and the response headers it overrides. */
  readonly blob: { readonly resource: string; readonly headers: readonly string[] } | undefined;
}

/** Both ends included, compared as UTF-16 code units. A row key is only given with its partition key. */
export interface SasKeyRange {
  readonly startPartitionKey: string | undefined;
  readonly startRowKey: string | undefined;
  readonly endPartitionKey: string | undefined;
  readonly endRowKey: string | undefined;
}
