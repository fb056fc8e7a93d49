import { ServiceError } from "@rowhouse/protocol/errors";
import { CallTime } from "../engine/call-time.ts";
import type { BodySource } from "../wire/body-source.ts";
import { md5Header } from "../wire/content-md5.ts";
import { integerHeader, invalidHeader } from "../wire/header-values.ts";
import type { Caller, WireRequest } from "../wire/operation.ts";
import { PartsFiller } from "../wire/parts-filler.ts";
import type { BlobContext } from "./blob-operation.ts";
import { checkNotArchived } from "./blob-properties.ts";
import { type CommittedBlob, contentIdOf } from "./blob-record.ts";
import { type ByteRange, clipRange, parseRange } from "./byte-range.ts";
import { type Conditions, checkSourceConditions, sourceConditions } from "./conditions.ts";
import { gather, type ReceivedContent } from "./content-life/contents.ts";
import { type IncomingContent, incomingContent } from "./content-life/incoming-content.ts";
import {
  type CopySource,
  copySourceOf,
  readSource,
  refuseSourceCredentials,
} from "./copy-source.ts";

/** Where the content of a write comes from: the body, or another blob of this server. */
export interface WantedContent {
  readonly caller: Caller;
  readonly source: BodySource | undefined;
  /** From a URL, its length is known when the operation runs. */
  readonly content: IncomingContent;
  readonly url: ContentUrl | undefined;
  readonly bytesMin: number;
  readonly bytesMax: number;
}

interface ContentUrl {
  readonly source: CopySource;
  readonly range: ByteRange | undefined;
  readonly conditions: Conditions;
}

/**
 * The content that a write announces: of the body, or, with `x-ms-copy-source`, of a blob or a range of it.
 * @throws ServiceError as `incomingContent` and `copySourceOf`; InvalidHeaderValue for fewer bytes than `bytesMin`
 */
export function wantedContent(
  request: WireRequest,
  bytesMin: number,
  bytesMax: number,
): WantedContent {
  const { bodySource: source } = request;
  const common = { caller: request, source, bytesMin, bytesMax };
  if (request.header("x-ms-copy-source") === undefined) {
    const content = incomingContent(request, bytesMax);
    if (content.bytes < bytesMin) throw invalidHeader("Content-Length", String(content.bytes));
    return { ...common, content, url: undefined };
  }
  refuseSourceCredentials(request);
  const length = integerHeader(request, "content-length") ?? 0;
  if (length > 0) throw invalidHeader("Content-Length", String(length));
  const content = {
    bytes: 0,
    bodyBytes: 0,
    isStructured: false,
    md5: md5Header(request, "x-ms-source-content-md5"),
    crc64: request.header("x-ms-source-content-crc64") || undefined,
  };
  const range = parseRange(request.header("x-ms-source-range"));
  const conditions = sourceConditions(request);
  return { ...common, content, url: { source: copySourceOf(request), range, conditions } };
}

/** What `receive` makes of the content, and the blob that it was taken from, if any. */
export interface Taken extends ReceivedContent {
  readonly original: CommittedBlob | undefined;
}

/**
 * Receives the content, wherever it comes from. A source that is replaced meanwhile is read again.
 * @throws ServiceError as `readSource` and `receive`; CannotVerifyCopySource, InvalidRange, RequestBodyTooLarge
 */
export async function takeContent(
  context: BlobContext,
  wanted: WantedContent,
  receive: (source: BodySource | undefined, content: IncomingContent) => ReceivedReady,
): Promise<Taken> {
  const { url } = wanted;
  if (url === undefined) {
    return { ...(await receive(wanted.source, wanted.content)), original: undefined };
  }
  const { blobs, clock, contents, readers } = context;
  for (const time = new CallTime(clock); ; time.assertLeft()) {
    const original = (await readSource(context, url.source, wanted.caller)).record.blob!;
    checkSourceConditions(url.conditions, original.modified);
    checkNotArchived(original.accessTier);
    const { size } = original;
    const { start, end } = url.range ? clipRange(url.range, size) : { start: 0, end: size };
    const bytes = end - start;
    checkLength(bytes, wanted, url.source);
    const content = { ...wanted.content, bytes, bodyBytes: bytes };
    const taken = await blobs.readUnlessReleased(url.source.name, original, () =>
      readers.duringWork(contentIdOf(original) ?? "", async () => {
        const parts = contents.read(original, start, end)[Symbol.asyncIterator]();
        try {
          return await receive(storedBody(parts, bytes, wanted.source), content);
        } finally {
          await parts.return?.();
        }
      }),
    );
    if (taken !== undefined) return { ...taken, original };
  }
}

type ReceivedReady = ReceivedContent | Promise<ReceivedContent>;

function checkLength(bytes: number, { bytesMin, bytesMax }: WantedContent, from: CopySource): void {
  if (bytes < bytesMin) throw invalidHeader("x-ms-copy-source", from.url);
  if (bytes > bytesMax) {
    throw new ServiceError("RequestBodyTooLarge", { details: [["MaxLimit", String(bytesMax)]] });
  }
}

/** Stored content as if it were the body of the request, which counts the memory that it takes. */
function storedBody(
  iterator: AsyncIterator<Uint8Array>,
  bytes: number,
  request: BodySource | undefined,
): BodySource {
  const parts = { [Symbol.asyncIterator]: () => iterator };
  const filler = new PartsFiller(parts);
  return {
    bytes,
    async read(bytesMax) {
      if (bytes > bytesMax) return undefined;
      request?.reserve(bytes);
      return gather(parts, bytes);
    },
    fill: (memory) => filler.fill(memory),
    reserve: (count) => request?.reserve(count),
  };
}
