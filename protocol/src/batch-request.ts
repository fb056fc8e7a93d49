/** One operation of an entity group transaction, as a client sends it. */
export interface ChangesetOperation {
  readonly method: "POST" | "PUT" | "MERGE" | "DELETE";
  /** Absolute. */
  readonly url: string;
  readonly ifMatch?: string;
  /** An entity as JSON. */
  readonly body?: string;
}

/** What a service answers: ETags in the order of the operations, or why nothing was done. */
export type ChangesetAnswer =
  | { readonly kind: "done"; readonly etags: readonly (string | undefined)[] }
  | {
      readonly kind: "refused";
      readonly status: number;
      readonly code: string;
      readonly message: string;
      /** The operation that was refused, where the service names one. */
      readonly index: number | undefined;
    };

/** Bytes that an operation has besides its URL, its ETag and its body. */
const PART_BYTES = 400;

/** At least as many bytes as the operation takes in the body of a request. */
export function changesetBytes({ url, ifMatch = "", body = "" }: ChangesetOperation): number {
  return PART_BYTES + url.length + ifMatch.length + 3 * body.length;
}

export function changesetType(id: string): string {
  return `multipart/mixed; boundary=batch_${id}`;
}

/**
 * The body of `POST $batch` with one change set.
 * @param id letters, digits and dashes that occur in no operation, such as a new GUID
 */
export function printChangeset(operations: readonly ChangesetOperation[], id: string): string {
  const parts = operations.map(({ method, url, ifMatch, body }) =>
    [
      `--changeset_${id}`,
      "Content-Type: application/http",
      "Content-Transfer-Encoding: binary",
      "",
      `${method} ${url} HTTP/1.1`,
      "Accept: application/json;odata=minimalmetadata",
      "DataServiceVersion: 3.0",
      "Prefer: return-no-content",
      ...(ifMatch === undefined ? [] : [`If-Match: ${ifMatch}`]),
      ...(body === undefined ? ["", ""] : ["Content-Type: application/json", "", body]),
    ].join("\r\n"),
  );
  return [
    `--batch_${id}`,
    `Content-Type: multipart/mixed; boundary=changeset_${id}`,
    "",
    ...parts,
    `--changeset_${id}--`,
    `--batch_${id}--`,
    "",
  ].join("\r\n");
}

/**
 * Reads the body of the answer, whose status was 202.
 * @param operations how many were sent: the service does not name the one that was wrong where there was no other
 */
export function readChangesetAnswer(text: string, operations: number): ChangesetAnswer {
  const parts = text.split(/^--changesetresponse_/m).slice(1);
  const etags: (string | undefined)[] = [];
  for (const part of parts) {
    const status = Number(/^HTTP\/1\.1 (\d{3})/m.exec(part)?.[1] ?? 0);
    if (status === 0) continue;
    if (status >= 300) return refusalIn(status, part, operations);
    etags.push(/^ETag: *(.*?)\r?$/im.exec(part)?.[1]);
  }
  return { kind: "done", etags };
}

function refusalIn(status: number, part: string, operations: number): ChangesetAnswer {
  const [json = "{}"] = /\{.*\}/s.exec(part) ?? [];
  const { "odata.error": error } = JSON.parse(json) as {
    "odata.error"?: { code?: string; message?: { value?: string } };
  };
  const [first = ""] = (error?.message?.value ?? "").split("\n");
  const [, index, message = first] = /^(\d+):(.*)$/s.exec(first) ?? [];
  const refused = { kind: "refused", status, code: error?.code ?? `HTTP ${status}` } as const;
  const alone = operations === 1 ? 0 : undefined;
  return { ...refused, message, index: index === undefined ? alone : Number(index) };
}
