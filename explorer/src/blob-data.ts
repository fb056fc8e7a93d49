import { wire } from "./session.ts";
import { elementsOf, textOf } from "./storage-xml.ts";

export interface ListedBlob {
  readonly name: string;
  readonly bytes: number;
  readonly type: string;
  readonly modifiedAt: number;
}

export interface BlobPage {
  /** Names up to the next delimiter. */
  readonly prefixes: readonly string[];
  readonly blobs: readonly ListedBlob[];
  /** Where the next page begins; "" at the end. */
  readonly next: string;
}

const CONTAINERS_MAX = 5000;

export async function listContainers(): Promise<string[]> {
  const names: string[] = [];
  let marker = "";
  do {
    const query = { comp: "list", include: "system", marker };
    const xml = await (await wire({ service: "blob", path: "", query })).text();
    names.push(...elementsOf(xml, "Container").map((container) => textOf(container, "Name")));
    marker = textOf(xml, "NextMarker");
  } while (marker !== "" && names.length < CONTAINERS_MAX);
  return names;
}

/** A page of what begins with a prefix, down to the next "/". */
export async function listBlobs(
  container: string,
  prefix: string,
  marker: string,
): Promise<BlobPage> {
  const query = { restype: "container", comp: "list", delimiter: "/", prefix, marker };
  const xml = await (await wire({ service: "blob", path: `/${container}`, query })).text();
  return {
    prefixes: elementsOf(xml, "BlobPrefix").map((each) => textOf(each, "Name")),
    blobs: elementsOf(xml, "Blob").map((each) => ({
      name: textOf(each, "Name"),
      bytes: Number(textOf(each, "Content-Length")),
      type: textOf(each, "BlobType"),
      modifiedAt: Date.parse(textOf(each, "Last-Modified")),
    })),
    next: textOf(xml, "NextMarker"),
  };
}

function pathOf(container: string, blob: string): string {
  return `/${container}/${blob.split("/").map(encodeURIComponent).join("/")}`;
}

export interface BlobFacts {
  readonly bytes: number;
  /** Headers that describe it, metadata included, by name. */
  readonly headers: ReadonlyMap<string, string>;
}

const TOLD =
  /^(content-(?!length|disposition)|last-modified|etag|x-ms-(?!version|request-id|client-request-id))/;

export async function readFacts(container: string, blob: string): Promise<BlobFacts> {
  const path = pathOf(container, blob);
  const answer = await wire({ service: "blob", method: "HEAD", path });
  const headers = [...answer.headers].filter(([name]) => TOLD.test(name));
  return { bytes: Number(answer.headers.get("content-length") ?? 0), headers: new Map(headers) };
}

/** Bytes from `begin` up to `end`, which is not included. */
export async function readRange(
  container: string,
  blob: string,
  begin: number,
  end: number,
): Promise<Uint8Array> {
  if (end <= begin) return new Uint8Array(0);
  const headers = { "x-ms-range": `bytes=${begin}-${end - 1}` };
  const answer = await wire({ service: "blob", path: pathOf(container, blob), headers });
  return new Uint8Array(await answer.arrayBuffer());
}

export async function readWhole(container: string, blob: string): Promise<Blob> {
  return (await wire({ service: "blob", path: pathOf(container, blob) })).blob();
}

/** Lines of sixteen bytes: offset, hex, and what is printable. */
export function hexOf(bytes: Uint8Array, offset: number): string {
  const lines: string[] = [];
  for (let at = 0; at < bytes.length; at += 16) {
    const line = bytes.subarray(at, at + 16);
    const hex = Array.from(line, (byte) => byte.toString(16).padStart(2, "0")).join(" ");
    const text = Array.from(line, (byte) =>
      byte >= 0x20 && byte < 0x7f ? String.fromCharCode(byte) : "·",
    ).join("");
    lines.push(`${(offset + at).toString(16).padStart(8, "0")}  ${hex.padEnd(47)}  ${text}`);
  }
  return lines.join("\n");
}

/** Bytes as UTF-8, without the parts of characters at the cut ends. */
export function textOfBytes(bytes: Uint8Array, isCutBefore: boolean): string {
  let begin = 0;
  if (isCutBefore) while (begin < 3 && (bytes[begin]! & 0xc0) === 0x80) begin++;
  return new TextDecoder().decode(bytes.subarray(begin));
}

/** Whether somebody would call it text: no zero bytes, and hardly anything that is no UTF-8. */
export function isText(bytes: Uint8Array): boolean {
  const start = bytes.subarray(0, 4096);
  if (start.includes(0)) return false;
  const wrong = new TextDecoder().decode(start).split("\ufffd").length - 1;
  return wrong <= 2 + start.length / 100;
}
