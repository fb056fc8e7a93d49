import { padded } from "../keys/number.ts";
import type { BlobInfo, BlobsPort, Metadata } from "../ports/blobs.ts";
import { type From, pages } from "../query/pages.ts";
import { HOUR_MS } from "../store/clock.ts";

/** The hour a time belongs to, in hours since 1970. */
export function hourOf(ms: number): number {
  return Math.floor(ms / HOUR_MS);
}

/** `queue/2014/07/31/1800/`: the folder of an hour, in UTC. */
export function folderOf(service: string, hour: number): string {
  const [day, time = ""] = new Date(hour * HOUR_MS).toISOString().split("T");
  return `${service}/${day?.replaceAll("-", "/")}/${time.slice(0, 2)}00/`;
}

/** `…/1800/000001.log`. */
export function fileName(folder: string, sequence: number): string {
  return `${folder}${padded(sequence, 6)}.log`;
}

export async function filesOf(
  blobs: BlobsPort,
  container: string,
  prefix: string,
): Promise<BlobInfo[]> {
  const files: BlobInfo[] = [];
  const listed = pages((from: From<string>) => blobs.list(container, { prefix, ...from }));
  for await (const page of listed) files.push(...page.blobs);
  return files;
}

/** 0 for a name that is not ours. */
export function sequenceOf(name: string): number {
  return Number(/\/(\d{6,})\.log$/.exec(name)?.[1] ?? 0);
}

/** The earliest and the latest time of the records. */
export interface Span {
  readonly firstMs: number;
  readonly lastMs: number;
}

/** An open file states no end, since late records may still be appended. */
export function openMetadata(writer: string, { firstMs }: Span): Metadata {
  return { writer, starttime: new Date(firstMs).toISOString() };
}

/** A sealed file states its whole span. */
export function sealedMetadata(writer: string, span: Span): Metadata {
  const endtime = new Date(span.lastMs).toISOString();
  return { ...openMetadata(writer, span), endtime, sealed: "true" };
}

/** Undefined for a file that is open, or whose writer crashed. */
export function sealedSpan({ starttime, endtime, sealed }: Metadata): Span | undefined {
  const span = { firstMs: Date.parse(starttime ?? ""), lastMs: Date.parse(endtime ?? "") };
  return sealed === "true" && span.firstMs <= span.lastMs ? span : undefined;
}
