import type {
  BlobServiceClient,
  BlockBlobClient,
  ContainerListBlobFlatSegmentResponse,
} from "@azure/storage-blob";
import { addAnswerPolicy, pipelineOf } from "./azure/answer-policy.ts";
import { withPortErrors } from "./azure/client-error.ts";
import { type AnswerOptions, silences } from "./azure/silence.ts";
import type {
  BlobContent,
  BlobPage,
  BlobsPort,
  ByteRange,
  DeleteBlobOptions,
  ListBlobsOptions,
  Metadata,
  PutOptions,
} from "./ports/blobs.ts";
import { concatenated } from "./ports/edm.ts";
import { isRefusalInside, PortError } from "./ports/port-error.ts";

export { singleTry } from "./azure/client-error.ts";
export type { AnswerOptions } from "./azure/silence.ts";

/** Wraps the official client as a blobs port. Create the client with the options `singleTry`. */
export function azureBlobs(service: BlobServiceClient, options: AnswerOptions = {}): BlobsPort {
  // biome-ignore lint/complexity/useLiteralKeys: the client has no public property for its pipeline.
  addAnswerPolicy(pipelineOf(service["pipeline"]), "blob", options);
  return new AzureBlobs(service, options);
}

class AzureBlobs implements BlobsPort {
  readonly #service: BlobServiceClient;
  readonly #silence: ReturnType<typeof silences>;

  constructor(service: BlobServiceClient, options: AnswerOptions) {
    this.#service = service;
    this.#silence = silences(options);
  }

  async createContainer(container: string): Promise<boolean> {
    const { succeeded } = await withPortErrors(this.#container(container).createIfNotExists());
    return succeeded;
  }

  async get(
    container: string,
    blob: string,
    { offset, count }: Partial<ByteRange> = {},
  ): Promise<BlobContent | undefined> {
    const { signal: abortSignal, heard: onProgress, giveUp, end } = this.#silence();
    try {
      const client = this.#container(container).getBlobClient(blob);
      const answer = await withPortErrors(
        client.download(offset, count, { abortSignal, onProgress }),
      );
      const body = await bytesOf(answer).catch((cause) => {
        throw new PortError("The body is incomplete.", {
          status: 0,
          code: "ECONNRESET",
          cause,
        });
      });
      return {
        body,
        length: body.length,
        etag: answer.etag ?? "",
        lastModified: answer.lastModified ?? new Date(0),
        metadata: answer.metadata ?? {},
        ...(answer.contentType && { contentType: answer.contentType }),
      };
    } catch (error) {
      if (isRefusalInside(error, 404)) return undefined;
      giveUp();
      throw error;
    } finally {
      end();
    }
  }

  async put(
    container: string,
    blob: string,
    body: Uint8Array,
    { condition, contentType, metadata, timeoutS }: PutOptions = {},
  ): Promise<string> {
    const conditions = condition === "absent" ? { ifNoneMatch: "*" } : condition;
    const client = this.#within(timeoutS, container, blob);
    const { etag } = await withPortErrors(
      client.upload(body, body.length, {
        ...(conditions && { conditions }),
        ...(contentType && { blobHTTPHeaders: { blobContentType: contentType } }),
        ...(metadata && { metadata: { ...metadata } }),
      }),
    );
    return etag ?? "";
  }

  async stageBlock(container: string, blob: string, id: string, block: Uint8Array): Promise<void> {
    const client = this.#container(container).getBlockBlobClient(blob);
    await withPortErrors(client.stageBlock(id, block, block.length));
  }

  async commitBlocks(
    container: string,
    blob: string,
    ids: readonly string[],
    { contentType }: Pick<PutOptions, "contentType"> = {},
  ): Promise<string> {
    const client = this.#container(container).getBlockBlobClient(blob);
    const options = contentType ? { blobHTTPHeaders: { blobContentType: contentType } } : {};
    return (await withPortErrors(client.commitBlockList([...ids], options))).etag ?? "";
  }

  async createAppendBlob(
    container: string,
    blob: string,
    metadata: Metadata = {},
  ): Promise<string> {
    const client = this.#container(container).getAppendBlobClient(blob);
    const conditions = { ifNoneMatch: "*" };
    return (
      (await withPortErrors(client.create({ conditions, metadata: { ...metadata } }))).etag ?? ""
    );
  }

  async append(
    container: string,
    blob: string,
    block: Uint8Array,
    position: number,
  ): Promise<string> {
    const client = this.#container(container).getAppendBlobClient(blob);
    const conditions = { appendPosition: position };
    return (
      (await withPortErrors(client.appendBlock(block, block.length, { conditions }))).etag ?? ""
    );
  }

  async setMetadata(container: string, blob: string, metadata: Metadata): Promise<string> {
    const client = this.#container(container).getBlobClient(blob);
    return (await withPortErrors(client.setMetadata({ ...metadata }))).etag ?? "";
  }

  async delete(
    container: string,
    blob: string,
    { ifMatch, ifUnmodifiedSince, timeoutS }: DeleteBlobOptions = {},
  ): Promise<boolean> {
    const conditions = {
      ...(ifMatch !== undefined && { ifMatch }),
      ...(ifUnmodifiedSince && { ifUnmodifiedSince }),
    };
    try {
      await withPortErrors(this.#within(timeoutS, container, blob).delete({ conditions }));
      return true;
    } catch (error) {
      if (isRefusalInside(error, 404)) return false;
      throw error;
    }
  }

  async list(
    container: string,
    { prefix, continuation, max }: ListBlobsOptions,
  ): Promise<BlobPage> {
    const pages = this.#container(container)
      .listBlobsFlat({ includeMetadata: true, ...(prefix !== undefined && { prefix }) })
      .byPage({
        ...(max !== undefined && { maxPageSize: max }),
        ...(continuation !== undefined && { continuationToken: continuation }),
      });
    const next = await withPortErrors(pages.next());
    const page: ContainerListBlobFlatSegmentResponse | undefined = next.value;
    if (!page) return { blobs: [] };
    const blobs = page.segment.blobItems.map(({ name, properties, metadata }) => ({
      name,
      length: properties.contentLength ?? 0,
      // A listing gives the ETag without the quotes that all other answers have.
      etag: properties.etag.startsWith('"') ? properties.etag : `"${properties.etag}"`,
      lastModified: properties.lastModified,
      metadata: metadata ?? {},
    }));
    return { blobs, ...(page.continuationToken && { continuation: page.continuationToken }) };
  }

  /** The client knows the parameter `timeout` but has no option for it. */
  #within(timeoutS: number | undefined, container: string, blob: string): BlockBlobClient {
    const client = this.#container(container).getBlockBlobClient(blob);
    if (timeoutS === undefined) return client;
    const url = new URL(client.url);
    url.searchParams.set("timeout", String(timeoutS));
    // biome-ignore lint/complexity/useLiteralKeys: as above. Its own class, since no other client is loaded.
    return Reflect.construct(client.constructor, [url.href, this.#service["pipeline"]]);
  }

  #container(name: string) {
    return this.#service.getContainerClient(name);
  }
}

/** A stream in Node, a Blob in browsers. */
async function bytesOf(answer: {
  readonly readableStreamBody?: AsyncIterable<unknown>;
  readonly blobBody?: Promise<{ arrayBuffer(): Promise<ArrayBuffer> }>;
}): Promise<Uint8Array> {
  const { readableStreamBody: stream, blobBody } = answer;
  if (!stream) return new Uint8Array((await (await blobBody)?.arrayBuffer()) ?? []);
  const chunks: Uint8Array[] = [];
  for await (const chunk of stream) if (chunk instanceof Uint8Array) chunks.push(chunk);
  return concatenated(chunks);
}
