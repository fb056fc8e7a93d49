import assert from "node:assert/strict";
import { sharedKeyLiteStrings } from "@rowhouse/protocol/shared-key";
import { Accounts, DEVELOPMENT_ACCOUNT } from "../auth/accounts.ts";
import { sign } from "../auth/test-request.ts";
import { openAccountIds } from "../catalog/account-ids.ts";
import type { ContentStore } from "../content/content-store.ts";
import { MemoryContentStore } from "../content/memory-content-store.ts";
import type { Engine } from "../engine/engine.ts";
import { MemoryEngine } from "../engine/memory-engine.ts";
import { HeaderList, WholeBody } from "../http/raw-request.ts";
import { RequestPipeline } from "../http/request-pipeline.ts";
import type { Account } from "../wire/account.ts";
import type { BodySource } from "../wire/body-source.ts";
import type { Gate } from "../wire/gate.ts";
import { PartsFiller } from "../wire/parts-filler.ts";
import { Query } from "../wire/query.ts";
import type { BlobContext } from "./blob-operation.ts";
import { type OpenBlobService, openBlobService } from "./open-blob-service.ts";
import { auditBlobs } from "./test-audit-blobs.ts";

const ACCOUNT = DEVELOPMENT_ACCOUNT.name;

/** The second account of the server. */
export const OTHER_ACCOUNT: Account = {
  name: "otheraccount",
  keys: [Buffer.from("a key that no other account has, of 64 bytes".padEnd(64, "."))],
};

/** The header that makes a blob a block blob. */
export const BLOCK = { "x-ms-blob-type": "BlockBlob" };
/** … and an append blob. */
export const APPEND = { "x-ms-blob-type": "AppendBlob" };
/** The beginning of a copy source's URL. */
export const ROOT = "http://127.0.0.1:10000/devstoreaccount1";

/** A clock that stands still until a test moves it. */
export class LabClock {
  ms = Date.parse("2026-07-31T18:00:00Z");

  now(): number {
    return this.ms;
  }
}

export interface LabOptions {
  readonly clock?: LabClock;
  /** The clock by which drafts expire. Default: `clock`. */
  readonly ageClock?: LabClock;
  /** Default: in memory. For a restart, the engine of an earlier lab. */
  readonly engine?: Engine;
  readonly contentStore?: ContentStore;
  /** Whether large contents are in the engine's rows; `contents` is then unused. */
  readonly inRows?: boolean;
  readonly allowsPublicAccess?: boolean;
  readonly gate?: Gate;
  /** Called when background work fails. Default: the test fails. */
  readonly onError?: (error: unknown) => void;
}

export interface LabRequest {
  /** Default: the development account. */
  readonly account?: Account;
  /** In addition to the usual headers, or in their place; empty ones are left out. */
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: string | Uint8Array;
  /** A body that arrives in parts, or breaks off. */
  readonly stream?: AsyncIterable<Uint8Array>;
}

/** A complete answer. */
export interface LabAnswer {
  readonly status: number;
  readonly body: Buffer;
  /** By lower-case name. */
  readonly headers: ReadonlyMap<string, string>;
}

/** For tests: the Blob service behind its request pipeline, without sockets, and with background work on demand. */
export class BlobLab {
  readonly clock: LabClock;
  readonly engine: Engine;
  readonly contentStore: ContentStore | undefined;
  readonly service: OpenBlobService;
  readonly #pipeline: RequestPipeline<BlobContext>;

  private constructor(
    { clock, ageClock }: { readonly clock: LabClock; readonly ageClock: LabClock },
    engine: Engine,
    contentStore: ContentStore | undefined,
    accountIds: ReadonlyMap<string, number>,
    allowsPublicAccess: boolean,
    onError: (error: unknown) => void,
    gate: Gate | undefined,
  ) {
    this.clock = clock;
    this.engine = engine;
    this.contentStore = contentStore;
    const auth = { checkDate: false, bearer: undefined };
    const accounts = new Accounts([DEVELOPMENT_ACCOUNT, OTHER_ACCOUNT]);
    this.service = openBlobService({
      engine,
      clock,
      ageClock,
      accountIds,
      onError,
      auth,
      accounts,
      gate,
      contentStore,
      allowsPublicAccess,
    });
    this.#pipeline = new RequestPipeline(this.service.service, {
      accounts,
      gate,
      clock,
      observer: { listens: () => false, finished() {} },
      hostStyle: true,
      auth,
    });
  }

  static async open(options: LabOptions = {}): Promise<BlobLab> {
    const { clock = new LabClock(), ageClock = clock } = options;
    const contentStore = options.inRows
      ? undefined
      : (options.contentStore ?? new MemoryContentStore());
    const engine = options.engine ?? new MemoryEngine({ clock });
    const accountIds = await openAccountIds(engine, [ACCOUNT, OTHER_ACCOUNT.name]);
    const { allowsPublicAccess = true, onError = rethrow } = options;
    return new BlobLab(
      { clock, ageClock },
      engine,
      contentStore,
      accountIds,
      allowsPublicAccess,
      onError,
      options.gate,
    );
  }

  /** @param path relative to the account */
  async send(method: string, path: string, request: LabRequest = {}): Promise<LabAnswer> {
    const body = Buffer.from(request.body ?? "");
    const { account = DEVELOPMENT_ACCOUNT } = request;
    const target = `/${account.name}${path}`;
    const headers = {
      Host: "127.0.0.1:10000",
      "x-ms-date": new Date(this.clock.now()).toUTCString(),
      "x-ms-version": "2026-04-06",
      "Content-Length": String(body.length),
      ...request.headers,
    };
    const rawHeaders = Object.entries(headers)
      .filter(([, value]) => value !== "")
      .flat();
    // An empty header requests no signature.
    if (request.headers?.Authorization === undefined) {
      rawHeaders.push("Authorization", authorization(account, method, target, rawHeaders));
    }
    const answer = await this.#pipeline.handle({
      verb: method,
      target,
      headers: new HeaderList(rawHeaders),
      secure: false,
      remoteAddress: "127.0.0.1",
      body: request.stream ? streamed(request.stream) : new WholeBody(body),
    });
    return {
      status: answer.status,
      body: await bytesOf(answer.body),
      headers: mapOf(answer.headers),
    };
  }

  /** The head of a request without a body, as a part of a batch has it. */
  signed(method: string, path: string): string {
    const target = `/${ACCOUNT}${path}`;
    const headers = ["x-ms-date", new Date(this.clock.now()).toUTCString()];
    const signature = authorization(DEVELOPMENT_ACCOUNT, method, target, headers);
    return `${method} ${target} HTTP/1.1\r\n${headers.join(": ")}\r\nAuthorization: ${signature}\r\n`;
  }

  /** Sends a request that must succeed. */
  async must(method: string, path: string, request: LabRequest = {}): Promise<LabAnswer> {
    const answer = await this.send(method, path, request);
    assert.ok(answer.status < 300, `${method} ${path}: ${answer.status} ${answer.body}`);
    return answer;
  }

  /** Puts a block blob. */
  put(path: string, request: LabRequest = {}): Promise<LabAnswer> {
    return this.must("PUT", path, { ...request, headers: { ...BLOCK, ...request.headers } });
  }

  /** Sends a request that must be refused with this status and code. */
  async refused(
    expected: string,
    method: string,
    path: string,
    request: LabRequest = {},
  ): Promise<LabAnswer> {
    const answer = await this.send(method, path, request);
    assert.equal(`${answer.status} ${answer.headers.get("x-ms-error-code")}`, expected);
    return answer;
  }

  /** Frees everything that can be freed, and asserts that nothing is left over or missing. */
  async assertTidy(): Promise<void> {
    // Lists that succeeded one another are freed one per run, at least, and the service's own collector may
    // be running. Something without a note would stay forever.
    const runs = 10;
    await this.service.service.context.notes.dropSpares(0);
    for (let run = 1; ; run++) {
      await this.service.collector.collect(0);
      const audit = await auditBlobs(this.engine, this.contentStore);
      const isTidy = audit.leftOver.length + audit.missing.length + audit.notes === 0;
      if (isTidy || run === runs) {
        assert.deepEqual(audit, { leftOver: [], missing: [], notes: 0 });
        return;
      }
    }
  }

  async close(): Promise<void> {
    for (const work of this.service.background) await work.close();
  }
}

function rethrow(error: unknown): never {
  throw error;
}

/** A token for the objects of an account, as query text. */
export function accountSas(
  account: Account,
  { sp = "r", se = "2026-08-01T00:00:00Z" } = {},
): string {
  const sv = "2019-02-02";
  const text = [account.name, sp, "b", "o", "", se, "", "", sv, ""].join("\n");
  const sig = encodeURIComponent(sign(text, account));
  return `sv=${sv}&ss=b&srt=o&sp=${sp}&se=${se}&sig=${sig}`;
}

function authorization(
  account: Account,
  verb: string,
  target: string,
  rawHeaders: readonly string[],
): string {
  const [rawPath = "", query = ""] = target.split("?");
  const byName = mapOf(rawHeaders);
  const request = {
    verb,
    rawPath,
    query: new Query(query),
    rawHeaders,
    header: (name: string) => byName.get(name),
  };
  const [text = ""] = sharedKeyLiteStrings(request, account.name);
  return `SharedKeyLite ${account.name}:${sign(text, account)}`;
}

function mapOf(headers: readonly string[]): ReadonlyMap<string, string> {
  const map = new Map<string, string>();
  for (let i = 0; i < headers.length; i += 2) map.set(headers[i]!.toLowerCase(), headers[i + 1]!);
  return map;
}

function streamed(parts: AsyncIterable<Uint8Array>): BodySource {
  const filler = new PartsFiller(parts);
  return {
    bytes: undefined,
    async read(bytesMax) {
      const body = await bytesOf(parts);
      return body.length > bytesMax ? undefined : body;
    },
    fill: (memory) => filler.fill(memory),
    reserve() {},
  };
}

async function bytesOf(
  body: string | Uint8Array | AsyncIterable<Uint8Array> | undefined,
): Promise<Buffer> {
  if (body === undefined) return Buffer.alloc(0);
  if (typeof body === "string" || body instanceof Uint8Array) return Buffer.from(body);
  const parts: Uint8Array[] = [];
  for await (const part of body) parts.push(Uint8Array.from(part));
  return Buffer.concat(parts);
}

/** A body that arrives in one piece. */
export async function* once(bytes: Buffer): AsyncGenerator<Uint8Array> {
  yield bytes;
}
