import type { HttpAnswer } from "./http-answer.ts";
import type { Call, TableWire } from "./table-wire.ts";

/** One request of a change set; its URL starts below the account. */
export interface BatchedCall {
  readonly method: string;
  readonly path: string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: object;
}

export const BATCH_TYPE = "multipart/mixed; boundary=batch_1";

/** A `$batch` body with one change set, CRLF throughout. */
export function changeset(calls: readonly BatchedCall[]): string {
  const parts = calls.map((call) => `--changeset_1\r\n${part(call)}`).join("");
  return (
    "--batch_1\r\nContent-Type: multipart/mixed; boundary=changeset_1\r\n\r\n" +
    `${parts}--changeset_1--\r\n--batch_1--\r\n`
  );
}

/** A `$batch` body with one query. */
export function batchedQuery(path: string, headers: Readonly<Record<string, string>> = {}): string {
  return `--batch_1\r\n${part({ method: "GET", path, headers })}--batch_1--\r\n`;
}

function part({ method, path, headers = {}, body }: BatchedCall): string {
  const lines = { Accept: "application/json;odata=minimalmetadata", ...headers };
  const head = Object.entries(lines).map(([name, value]) => `${name}: ${value}\r\n`);
  return (
    "Content-Type: application/http\r\nContent-Transfer-Encoding: binary\r\n\r\n" +
    `${method} ${path} HTTP/1.1\r\n${head.join("")}\r\n${body ? JSON.stringify(body) : ""}\r\n`
  );
}

export function sendBatch(wire: TableWire, body: string, call: Call = {}): Promise<HttpAnswer> {
  return wire.send("POST", "/$batch", {
    ...call,
    body,
    headers: { "Content-Type": BATCH_TYPE, Accept: undefined, ...call.headers },
  });
}

export function sendChangeset(
  wire: TableWire,
  calls: readonly BatchedCall[],
  call: Call = {},
): Promise<HttpAnswer> {
  return sendBatch(wire, changeset(calls), call);
}

/** One answer inside the batch answer. */
export interface BatchedAnswer {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
  /** Set for a refusal. */
  readonly code: string | undefined;
  readonly message: string | undefined;
}

/** Parses the answer to a batch. */
export function readBatch(answer: HttpAnswer): BatchedAnswer[] {
  if (answer.status !== 202) throw new Error(String(answer));
  return answer.text
    .split(/^--(?:changesetresponse|batchresponse)_[^\r]*\r\n/m)
    .map((piece) => /\r\nHTTP\/1\.1 (\d{3})[^\r]*\r\n(.*?)\r\n\r\n(.*)$/s.exec(`\r\n${piece}`))
    .filter((match) => match !== null)
    .map(([, status, head = "", rest = ""]) => {
      const body = rest.replace(/(\r\n)+$/, "");
      const error = body.includes('"odata.error"')
        ? (JSON.parse(body) as { "odata.error": { code: string; message: { value: string } } })
        : undefined;
      return {
        status: Number(status),
        headers: Object.fromEntries(
          head.split("\r\n").map((line) => {
            const colon = line.indexOf(":");
            return [line.slice(0, colon), line.slice(colon + 1).trim()];
          }),
        ),
        body,
        code: error?.["odata.error"].code,
        message: error?.["odata.error"].message.value.split("\nRequestId:")[0],
      };
    });
}

/** The rows of a partition and their property `v`. */
export async function rowsOf(
  wire: TableWire,
  table: string,
  partition: string,
): Promise<Record<string, unknown>> {
  const filter = encodeURIComponent(`PartitionKey eq '${partition}'`);
  const list = await wire.send("GET", `/${table}?$filter=${filter}&$select=RowKey,v`, {
    headers: { Accept: "application/json;odata=nometadata" },
  });
  return Object.fromEntries(list.items().map(({ RowKey, v }) => [RowKey, v]));
}
