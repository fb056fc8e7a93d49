import type { Handle } from "@rowhouse/server/http/lane-limits";
import { HeaderList, WholeBody } from "@rowhouse/server/http/raw-request";

/** A request or answer, parsed from a transcript. */
export interface Message {
  /** Request line or status line. */
  readonly line: string;
  readonly headers: readonly (readonly [name: string, value: string])[];
  readonly body: string;
}

export interface Exchange {
  readonly number: number;
  readonly title: string;
  readonly request: Message;
  readonly response: Message;
}

/**
 * Parses transcripts: `=== NUMBER TITLE`, a request, `--->`, a response. Bodies of batches have CRLF on the
 * wire and LF here; `[EF BB BF]` is a byte order mark.
 */
export function parseTranscripts(text: string): Exchange[] {
  return text
    .split(/^=== /m)
    .slice(1)
    .map((block) => {
      const [title = "", ...rest] = block.split("\n");
      const [request = "", response = ""] = rest.join("\n").split("\n--->\n");
      const [number = "", ...words] = title.split(" ");
      return {
        number: Number(number),
        title: words.join(" "),
        request: parseMessage(request),
        response: parseMessage(response.replace(/\n$/, "")),
      };
    });
}

function parseMessage(text: string): Message {
  const gap = text.indexOf("\n\n");
  const head = gap < 0 ? text : text.slice(0, gap);
  const [line = "", ...lines] = head.split("\n");
  const headers = lines.map((each) => {
    const colon = each.indexOf(":");
    return [each.slice(0, colon), each.slice(colon + 1).trim()] as const;
  });
  const isMultipart = headers.some(([, value]) => value.startsWith("multipart/"));
  const body = gap < 0 ? "" : text.slice(gap + 2).replace("[EF BB BF]", "\ufeff");
  return { line, headers, body: isMultipart ? body.replaceAll("\n", "\r\n") : body };
}

/** Passes a request to the services without a socket. */
export async function inject(
  handle: Handle,
  request: Message,
  secure: boolean,
): Promise<Message & { status: number }> {
  const [verb = "", target = ""] = splitRequestLine(request.line);
  const body = Buffer.from(request.body, "utf8");
  const answer = await handle({
    verb,
    target,
    headers: new HeaderList(request.headers.flat()),
    secure,
    remoteAddress: "127.0.0.1",
    body: new WholeBody(body),
  });
  const headers: [string, string][] = [];
  for (let i = 0; i < answer.headers.length; i += 2)
    headers.push([answer.headers[i]!, answer.headers[i + 1]!]);
  return { line: "", status: answer.status, headers, body: await textOf(answer.body) };
}

function splitRequestLine(line: string): string[] {
  const first = line.indexOf(" ");
  return [line.slice(0, first), line.slice(first + 1, line.lastIndexOf(" HTTP/"))];
}

async function textOf(
  body: string | Uint8Array | AsyncIterable<Uint8Array> | undefined,
): Promise<string> {
  if (body === undefined || typeof body === "string") return body ?? "";
  if (body instanceof Uint8Array) return new TextDecoder("utf-8", { ignoreBOM: true }).decode(body);
  const chunks: Uint8Array[] = [];
  for await (const chunk of body) chunks.push(chunk);
  return Buffer.concat(chunks).toString("utf8");
}
