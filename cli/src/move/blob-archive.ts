import { createHash, createHmac } from "node:crypto";
import { mkdirSync, readdirSync, statSync } from "node:fs";
import { open, readFile, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { accountSasString, parseSas } from "@rowhouse/protocol/sas";
import { CONTENTS_FOLDER } from "@rowhouse/server/content/file-content-store";
import { DATA_FILE } from "@rowhouse/server/engine/lmdb/data-file";
import { assertReachable } from "../reachable.ts";
import {
  describeRefusal,
  parseTableEndpoint,
  type TableAnswer,
  TableConnection,
  type TableRequest,
} from "./table-endpoint.ts";

/** The container that a connection string, which names none, means. */
const CONTAINER = "rowhouse-backups";
/** The last file of a backup. It names all others with their sums, in the format of sha256sum. */
const SUMS_FILE = "SHA256SUMS";
const BLOCK_BYTES = 8 << 20;
/** So many blocks a blob may have. */
const BLOCKS_MAX = 50_000;
const FILES_AT_ONCE = 4;
const VERSION = "2019-12-12";
const SAS_HOURS = 7 * 24;

export const BACKUP_NAME = /^rowhouse-\d{8}T\d{6}Z$/;

/** Whether a place for backups is a Blob endpoint: the URL of a container, or a connection string. */
export function isBlobEndpoint(text: string): boolean {
  return /^\s*(https?:\/\/|[A-Za-z]+=)/i.test(text);
}

/**
 * Backups in a container of any Blob endpoint. Each is a prefix, `NAME/`, with the files of the backup as block blobs.
 * It is complete once `NAME/SHA256SUMS` is there, which is written last and removed first. Of each file one block is in
 * memory.
 */
export class BlobArchive {
  /** The backup that the URL named. */
  readonly named: string | undefined;
  readonly #connection: TableConnection;
  readonly #mayCreate: boolean;

  private constructor(connection: TableConnection, named: string | undefined, mayCreate: boolean) {
    this.#connection = connection;
    this.named = named;
    this.#mayCreate = mayCreate;
  }

  /** @throws Error for text that names no container, or an endpoint that is not there */
  static async connect(text: string, signal: AbortSignal): Promise<BlobArchive> {
    const { url, account, credential } = parseTableEndpoint(text, process.env, "blob");
    const isUrl = /^\s*http/i.test(text);
    const segments = new URL(url).pathname.split("/").filter(Boolean);
    const last = segments.at(-1) ?? "";
    const named = isUrl && BACKUP_NAME.test(last) ? last : undefined;
    const container = !isUrl
      ? `${url}/${CONTAINER}`
      : named === undefined
        ? url
        : url.slice(0, -named.length - 1);
    const depth = new URL(container).pathname.split("/").filter(Boolean).length;
    if (depth > 2 || depth === 0 || (isUrl && depth === 1 && !/\.blob\./.test(container))) {
      throw new Error(
        "The URL must name a container, such as https://ACCOUNT.blob.core.windows.net/CONTAINER or http://127.0.0.1:10000/devstoreaccount1/CONTAINER.",
      );
    }
    await assertReachable(new URL(container));
    const query = credential.kind === "sas" ? credential.query : sasOf(account, credential.key);
    const endpoint = { url: container, account, credential: { kind: "sas", query } } as const;
    return new BlobArchive(
      new TableConnection({ endpoint, signal }),
      named,
      credential.kind === "key",
    );
  }

  /** Without the signature. */
  addressOf(name: string): string {
    return `${this.#connection.endpoint.url}/${name}`;
  }

  /**
   * Stores the files of a backup. Returns their bytes.
   * @param onBytes told what was stored now, and which part of all that was
   * @throws Error with the endpoint's refusal
   */
  async upload(
    folder: string,
    name: string,
    onBytes: (bytes: number, done: number) => void,
  ): Promise<number> {
    // With a SAS of one container, it exists, and cannot be created.
    if (this.#mayCreate) {
      await this.#send({ method: "PUT", path: "", query: "restype=container" }, [201, 409]);
    }
    const files = filesOf(folder);
    const total = files.reduce((sum, file) => sum + statSync(join(folder, file)).size, 0);
    const sums: string[] = [];
    let stored = 0;
    const onBlock = (bytes: number) => {
      stored += bytes;
      onBytes(bytes, stored / total);
    };
    await eachOf(files, async (file) => {
      const sum = await this.#uploadFile(join(folder, file), `${name}/${file}`, onBlock);
      sums.push(`${sum}  ${file}\n`);
    });
    const list = join(folder, SUMS_FILE);
    await writeFile(list, sums.sort().join(""));
    await this.#uploadFile(list, `${name}/${SUMS_FILE}`, () => {});
    return total;
  }

  /** The names of the complete backups, the oldest first. */
  async names(): Promise<string[]> {
    const blobs = await this.#list("rowhouse-", SUMS_FILE);
    const names = blobs.map((blob) => blob.slice(0, -SUMS_FILE.length - 1));
    return names.filter((name) => BACKUP_NAME.test(name)).sort();
  }

  async remove(name: string): Promise<void> {
    const sums = `${name}/${SUMS_FILE}`;
    const blobs = await this.#list(`${name}/`, "");
    // Without it, what is left of the others is no backup any more.
    for (const blob of [sums, ...blobs.filter((each) => each !== sums)])
      await this.#send({ method: "DELETE", path: pathOf(blob) }, [202, 404]);
  }

  /**
   * Fetches the files of a backup into a new folder.
   * @param onBytes told what has arrived now
   * @throws Error for what is missing or differs from its sum
   */
  async download(name: string, folder: string, onBytes: (bytes: number) => void): Promise<void> {
    mkdirSync(folder, { mode: 0o700 });
    const list = join(folder, SUMS_FILE);
    await this.#downloadFile(`${name}/${SUMS_FILE}`, list, () => {});
    const lines = (await readFile(list, "utf8")).split("\n").filter(Boolean);
    await eachOf(lines, async (line) => {
      const [, sum, file] = /^([0-9a-f]{64}) {2}(\S+)$/.exec(line) ?? [];
      // The container may be somebody else's: a name must not lead out of the folder.
      if (file === undefined || !FILE.test(file))
        throw new Error(`${name}/${SUMS_FILE} names something that is no file of a backup.`);
      mkdirSync(dirname(join(folder, file)), { recursive: true, mode: 0o700 });
      const found = await this.#downloadFile(`${name}/${file}`, join(folder, file), onBytes);
      if (found !== sum) throw new Error(`${name}/${file} is damaged: its sum is ${found}.`);
    });
  }

  /** Returns the sum of the file. */
  async #uploadFile(path: string, blob: string, onBlock: (bytes: number) => void): Promise<string> {
    const hash = createHash("sha256");
    const file = await open(path);
    try {
      const { size } = await file.stat();
      const blockBytes = Math.max(BLOCK_BYTES, Math.ceil(size / BLOCKS_MAX));
      const ids: string[] = [];
      for (let at = 0; at < size; at += blockBytes) {
        const body = Buffer.allocUnsafe(Math.min(blockBytes, size - at));
        await file.read(body, 0, body.length, at);
        hash.update(body);
        const id = Buffer.from(String(ids.length).padStart(8, "0")).toString("base64");
        // The service refuses a block whose bytes are not these.
        const headers = { "Content-MD5": createHash("md5").update(body).digest("base64") };
        const query = `comp=block&blockid=${encodeURIComponent(id)}`;
        await this.#send({ method: "PUT", path: pathOf(blob), query, headers, body }, [201]);
        ids.push(`<Latest>${id}</Latest>`);
        onBlock(body.length);
      }
      const body = Buffer.from(
        `<?xml version="1.0" encoding="utf-8"?><BlockList>${ids.join("")}</BlockList>`,
      );
      await this.#send({ method: "PUT", path: pathOf(blob), query: "comp=blocklist", body }, [201]);
      return hash.digest("hex");
    } finally {
      await file.close();
    }
  }

  /** Returns the sum of what arrived. */
  async #downloadFile(
    blob: string,
    path: string,
    onBytes: (bytes: number) => void,
  ): Promise<string> {
    const hash = createHash("sha256");
    const file = await open(path, "wx", 0o600);
    try {
      for (let at = 0, size = 1; at < size; ) {
        const headers = { "x-ms-range": `bytes=${at}-${at + BLOCK_BYTES - 1}` };
        const request = { method: "GET", path: pathOf(blob), headers } as const;
        const answer = await this.#send(request, [200, 206, 416]);
        if (answer.status === 416) break;
        await file.write(answer.body, 0, answer.body.length, at);
        hash.update(answer.body);
        onBytes(answer.body.length);
        at += answer.body.length;
        size = Number(/\/(\d+)$/.exec(answer.headers.get("content-range") ?? "")?.[1] ?? at);
        if (answer.body.length === 0) break;
      }
    } finally {
      await file.close();
    }
    return hash.digest("hex");
  }

  /** The names that begin and end with these texts. */
  async #list(prefix: string, end: string): Promise<string[]> {
    const names: string[] = [];
    for (let marker: string | undefined = ""; marker !== undefined; ) {
      const query = `restype=container&comp=list&prefix=${encodeURIComponent(prefix)}&marker=${encodeURIComponent(marker)}`;
      const answer = await this.#send({ method: "GET", path: "", query }, [200, 404]);
      const text = answer.body.toString("utf8");
      for (const [, name = ""] of text.matchAll(/<Name>([^<]*)<\/Name>/g)) {
        if (name.endsWith(end)) names.push(name);
      }
      marker = /<NextMarker>([^<]+)<\/NextMarker>/.exec(text)?.[1];
    }
    return names;
  }

  async #send(request: TableRequest, expected: readonly number[]): Promise<TableAnswer> {
    const headers = { "x-ms-version": VERSION, ...request.headers };
    const answer = await this.#connection.send({ ...request, headers });
    if (expected.includes(answer.status)) return answer;
    throw new Error(
      `${this.#connection.endpoint.url}${request.path}: ${request.method} was refused: ${describeRefusal(answer)}`,
    );
  }
}

/** What a backup consists of: names of contents are ids. */
const FILE = new RegExp(`^(${DATA_FILE}|${CONTENTS_FOLDER}/[0-9a-z]/[0-9A-Za-z_-]+)$`);

function filesOf(folder: string): string[] {
  const found = readdirSync(folder, { recursive: true, encoding: "utf8" });
  return found.filter((file) => FILE.test(file));
}

async function eachOf<Item>(
  items: readonly Item[],
  work: (item: Item) => Promise<void>,
): Promise<void> {
  const rest = items.values();
  const worker = async () => {
    for (const item of rest) await work(item);
  };
  await Promise.all(Array.from({ length: FILES_AT_ONCE }, worker));
}

function pathOf(blob: string): string {
  return `/${blob.split("/").map(encodeURIComponent).join("/")}`;
}

/** The key signs once, for all requests. */
function sasOf(account: string, key: Uint8Array): string {
  const expiry = `${new Date(Date.now() + SAS_HOURS * 3_600_000).toISOString().slice(0, 19)}Z`;
  const parameters = [
    ["sv", VERSION],
    ["ss", "b"],
    ["srt", "co"],
    ["sp", "rwdlc"],
    ["se", expiry],
  ] as const;
  const text = accountSasString(account, parseSas(parameters));
  const sig = createHmac("sha256", key).update(text, "utf8").digest("base64");
  return new URLSearchParams({ ...Object.fromEntries(parameters), sig }).toString();
}
