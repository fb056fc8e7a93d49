import { readdirSync, readFileSync, statSync } from "node:fs";
import { basename, extname, join, relative, sep } from "node:path";
import { ENTITY_FORMATS, type FileRecord } from "@rowhouse/protocol/entity-files";
import { eachBounded } from "@rowhouse/server/each-bounded";
import type { RunningServer } from "@rowhouse/server/server";
import type { Account } from "@rowhouse/server/wire/account";
import { messageOf } from "./message-of.ts";
import { recordsOf } from "./move/import-file.ts";
import { OwnClient } from "./seed/own-client.ts";

const AT_ONCE = 64;

/** Content types by the ending of a blob's name; everything else is bytes. */
const CONTENT_TYPES: Readonly<Record<string, string>> = {
  ".css": "text/css",
  ".csv": "text/csv",
  ".html": "text/html",
  ".js": "text/javascript",
  ".json": "application/json",
  ".png": "image/png",
  ".svg": "image/svg+xml",
  ".txt": "text/plain",
};

/**
 * Loads a folder into an account:
 *
 *     tables/NAME.jsonl or NAME.csv    one entity per line or row
 *     queues/NAME.jsonl                one message per line, as a JSON string
 *     blobs/CONTAINER/…                each file is a blob, named by its path in the container
 *
 * Tables, queues and containers that exist already are added to.
 * @throws Error that names the file, the line and what the service refused; what was loaded before stays
 */
export async function seed(
  folder: string,
  { handles }: Pick<RunningServer, "handles">,
  account: Account,
): Promise<void> {
  if (!statSync(folder, { throwIfNoEntry: false })?.isDirectory())
    throw new Error(`The seed ${folder} is not a folder; name one with tables, queues or blobs.`);
  const parts = Object.keys(LOADERS);
  const present = readdirSync(folder).filter((name) => !name.startsWith("."));
  const unknown = present.find((name) => !parts.includes(name));
  if (unknown)
    throw new Error(`The seed ${folder} has "${unknown}"; ${parts.join(", ")} are allowed.`);
  const client = new OwnClient(handles, account);
  for (const name of present) await LOADERS[name]!(client, join(folder, name));
}

type Load = (client: OwnClient, folder: string) => Promise<void>;
const LOADERS: Readonly<Record<string, Load>> = {
  tables: loadTables,
  queues: loadQueues,
  blobs: loadBlobs,
};

async function loadTables(client: OwnClient, folder: string): Promise<void> {
  for (const [file, table] of namedFiles(folder, ENTITY_FORMATS)) {
    await within(file, async () => {
      const body = JSON.stringify({ TableName: table });
      const create = {
        service: "table",
        verb: "POST",
        path: "/Tables",
        headers: JSON_HEADERS,
      } as const;
      await client.send({ ...create, body }, { exists: true });
      const format = ENTITY_FORMATS.find((each) => file.endsWith(each))!;
      const batch: FileRecord[] = [];
      const flush = () =>
        eachBounded(batch.splice(0), (record) => insert(client, table, record), AT_ONCE);
      for await (const record of recordsOf(file, format)) {
        batch.push(record);
        if (batch.length === AT_ONCE) await flush();
      }
      await flush();
    });
  }
}

const JSON_HEADERS = ["Content-Type", "application/json", "Prefer", "return-no-content"];

async function insert(client: OwnClient, table: string, record: FileRecord): Promise<void> {
  const { number, body, fault } = record;
  const request = {
    service: "table",
    verb: "POST",
    path: `/${table}`,
    headers: JSON_HEADERS,
  } as const;
  try {
    if (fault !== undefined) throw new Error(fault);
    await client.send({ ...request, body });
  } catch (cause) {
    throw new Error(`entity ${number}: ${messageOf(cause)}`, { cause });
  }
}

async function loadQueues(client: OwnClient, folder: string): Promise<void> {
  for (const [file, queue] of namedFiles(folder, ["jsonl"])) {
    await within(file, async () => {
      await client.send({ service: "queue", verb: "PUT", path: `/${queue}` });
      // One after the other: messages are received in the order in which they were sent.
      for await (const { number, body: json } of recordsOf(file, "jsonl")) {
        const text = messageText(Buffer.from(json).toString("utf8"), number);
        const body = `<QueueMessage><MessageText>${escaped(text)}</MessageText></QueueMessage>`;
        await client
          .send({ service: "queue", verb: "POST", path: `/${queue}/messages`, body })
          .catch((cause) => {
            throw new Error(`line ${number}: ${messageOf(cause)}`, { cause });
          });
      }
    });
  }
}

function messageText(json: string, line: number): string {
  let text: unknown;
  try {
    text = JSON.parse(json);
  } catch {
    // Reported below.
  }
  if (typeof text !== "string") throw new Error(`line ${line} is not a JSON string`);
  return text;
}

function escaped(text: string): string {
  return text.replace(/[&<>]/g, (sign) => `&#${sign.charCodeAt(0)};`);
}

async function loadBlobs(client: OwnClient, folder: string): Promise<void> {
  for (const container of readdirSync(folder)) {
    const top = join(folder, container);
    const put = { service: "blob", verb: "PUT" } as const;
    await within(top, () =>
      client.send({ ...put, path: `/${container}?restype=container` }, { exists: true }),
    );
    const files = readdirSync(top, { recursive: true, withFileTypes: true }).filter((entry) =>
      entry.isFile(),
    );
    await eachBounded(files, (entry) => {
      const file = join(entry.parentPath, entry.name);
      const name = relative(top, file).split(sep).map(encodeURIComponent).join("/");
      const type = CONTENT_TYPES[extname(file)] ?? "application/octet-stream";
      const headers = ["x-ms-blob-type", "BlockBlob", "Content-Type", type];
      const request = { ...put, path: `/${container}/${name}`, headers };
      return within(file, () => client.send({ ...request, body: readFileSync(file) }));
    });
  }
}

/** The files of a folder, each with the table or queue that it is named after. */
function namedFiles(folder: string, formats: readonly string[]): [file: string, name: string][] {
  return readdirSync(folder).map((entry) => {
    const ending = extname(entry);
    if (!formats.includes(ending.slice(1)))
      throw new Error(`${join(folder, entry)} does not end with .${formats.join(" or .")}.`);
    return [join(folder, entry), basename(entry, ending)];
  });
}

async function within<T>(file: string, work: () => T | Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (cause) {
    throw new Error(`${file}: ${messageOf(cause)}`, { cause });
  }
}
