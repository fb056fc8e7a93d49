/** One HTTP answer, as received from a socket. */
export class HttpAnswer {
  readonly status: number;
  readonly reason: string;
  /** In the order and spelling sent. */
  readonly headers: readonly (readonly [name: string, value: string])[];
  readonly body: Buffer;

  constructor(
    status: number,
    reason: string,
    headers: readonly (readonly [string, string])[],
    body: Buffer,
  ) {
    this.status = status;
    this.reason = reason;
    this.headers = headers;
    this.body = body;
  }

  header(name: string): string | undefined {
    return this.headers.find(([sent]) => sent.toLowerCase() === name.toLowerCase())?.[1];
  }

  get text(): string {
    return this.body.toString("utf8");
  }

  json(): unknown {
    return JSON.parse(this.text);
  }

  /** The items of a list, as clients read them. */
  items(): Record<string, unknown>[] {
    const { value } = this.json() as { value: Record<string, unknown>[] };
    return value;
  }

  /** Status, headers and body in one text, for comparisons and messages. */
  toString(): string {
    const head = this.headers.map(([name, value]) => `${name}: ${value}\r\n`).join("");
    return `HTTP/1.1 ${this.status} ${this.reason}\r\n${head}\r\n${this.body.toString("latin1")}`;
  }
}

/** Parses the first answer in `bytes`; undefined if it is incomplete. `100 Continue` is skipped. */
export function readAnswer(
  bytes: Buffer,
  { head, ended }: { readonly head: boolean; readonly ended: boolean },
): { answer: HttpAnswer; length: number } | undefined {
  const gap = bytes.indexOf("\r\n\r\n");
  if (gap < 0) return undefined;
  const [statusLine = "", ...lines] = bytes.toString("latin1", 0, gap).split("\r\n");
  const [, status, reason] = /^HTTP\/1\.1 (\d{3}) ?(.*)$/.exec(statusLine) ?? [];
  if (status === undefined) throw new Error(`This is no status line: ${statusLine}`);
  const start = gap + 4;
  if (status === "100") {
    const next = readAnswer(bytes.subarray(start), { head, ended });
    return next && { ...next, length: next.length + start };
  }
  const headers = lines.map((line) => {
    const colon = line.indexOf(":");
    return [line.slice(0, colon), line.slice(colon + 1).trim()] as const;
  });
  const named = (name: string) => headers.find(([sent]) => sent.toLowerCase() === name)?.[1];
  const done = (body: Buffer, length: number) => ({
    answer: new HttpAnswer(Number(status), reason ?? "", headers, body),
    length,
  });
  if (head || status === "204" || status === "304") return done(Buffer.alloc(0), start);
  if (named("transfer-encoding")?.toLowerCase() === "chunked") {
    const chunked = readChunks(bytes, start);
    return chunked && done(chunked.body, chunked.end);
  }
  const announced = named("content-length");
  if (announced === undefined) return ended ? done(bytes.subarray(start), bytes.length) : undefined;
  const end = start + Number(announced);
  return end <= bytes.length ? done(bytes.subarray(start, end), end) : undefined;
}

function readChunks(bytes: Buffer, start: number): { body: Buffer; end: number } | undefined {
  const chunks: Buffer[] = [];
  for (let at = start; ; ) {
    const lineEnd = bytes.indexOf("\r\n", at);
    if (lineEnd < 0) return undefined;
    const length = Number.parseInt(bytes.toString("latin1", at, lineEnd), 16);
    const end = lineEnd + 2 + length + 2;
    if (end > bytes.length) return undefined;
    if (length === 0) return { body: Buffer.concat(chunks), end };
    chunks.push(bytes.subarray(lineEnd + 2, end - 2));
    at = end;
  }
}
