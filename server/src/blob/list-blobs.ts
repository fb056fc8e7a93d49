import {
  type Listing,
  listingOf,
  printEntries,
  printListing,
  printMetadata,
  REPEATED,
} from "../wire/listing.ts";
import type { Caller } from "../wire/operation.ts";
import { invalidParameter } from "../wire/query-parameters.ts";
import { hasForbidden, printElement, printLeaf, xmlResponse } from "../xml/print-xml.ts";
import { findForCaller } from "./blob-access.ts";
import { type BlobOperation, containerNameOf } from "./blob-operation.ts";
import { type BlobPageEntry, readBlobPage } from "./blob-page.ts";
import type { CommittedBlob, CopyFacts } from "./blob-record.ts";
import { printLease } from "./print-lease.ts";
import { etagOf, lastModifiedOf, printTime } from "./validators.ts";

interface ListBlobsInput extends Listing {
  readonly caller: Caller;
  readonly container: string;
  readonly delimiter: string;
  readonly from: Uint8Array;
  readonly arrivedAt: number;
}

interface ListBlobsOutput {
  readonly container: string;
  /** XML. */
  readonly entries: string;
  /** UTF-8 of the next name; undefined on the last page. */
  readonly next: Uint8Array | undefined;
}

/** Accepted values of `include`. The first three have an effect; there is nothing to include for the others. */
const INCLUDABLE = [
  "metadata",
  "copy",
  "uncommittedblobs",
  "snapshots",
  "deleted",
  "versions",
  "tags",
  "immutabilitypolicy",
  "legalhold",
  "deletedwithversions",
  "permissions",
];

/** List Blobs: a page of names in the order of their UTF-8 bytes, flat or by delimiter. */
export const listBlobs: BlobOperation<ListBlobsInput, ListBlobsOutput> = {
  name: "ListBlobs",
  route: { method: "GET", resource: "container", comp: "list" },
  access: {
    resourceType: "c",
    accountSas: ["l"],
    serviceSas: ["l"],
    bearer: "read",
    anonymous: true,
  },

  decode(request) {
    const { query } = request;
    const listing = listingOf(request, INCLUDABLE);
    const least = Buffer.from(query.get("startfrom") ?? "", "utf8");
    const marked = decodeMarker(listing.marker);
    return {
      ...listing,
      caller: request,
      container: containerNameOf(request),
      delimiter: query.get("delimiter") ?? "",
      from: Buffer.compare(marked, least) > 0 ? marked : least,
      arrivedAt: request.arrivedAt,
    };
  },

  async run(context, input) {
    const { blobs, engine } = context;
    const container = await findForCaller(context, input.container, input.caller);
    const page = await readBlobPage(engine, {
      ...input,
      partition: blobs.partition(input.account, container),
      withUncommitted: input.includes.has("uncommittedblobs"),
    });
    const entries = await printEntries(page.entries, (entry) => printEntry(entry, input));
    return { container: input.container, entries, next: page.next };
  },

  encode({ container, entries, next }, request) {
    const document = printListing(request, {
      attributes: [["ContainerName", container]],
      repeated: [...REPEATED, ["Delimiter", "delimiter"]],
      element: "Blobs",
      entries,
      nextMarker: next === undefined ? "" : encodeMarker(next),
    });
    return xmlResponse(200, document);
  },
};

const PADDINGS = new Set(["", "=", "=="]);

/** The next name, in a form that survives URLs and XML. */
function encodeMarker(name: Uint8Array): string {
  return Buffer.from(name).toString("base64url");
}

/** @throws ServiceError InvalidQueryParameterValue for a marker that was never issued. */
function decodeMarker(marker: string): Uint8Array {
  const name = Buffer.from(marker, "base64url");
  const encoded = encodeMarker(name);
  // Some clients pad the marker. A pattern anchored at the end would be slow: it tries each of many padding
  // signs.
  if (marker.startsWith(encoded) && PADDINGS.has(marker.slice(encoded.length))) return name;
  throw invalidParameter("marker", marker, "It is not a marker of this service.");
}

function printEntry(entry: BlobPageEntry, { includes, arrivedAt }: ListBlobsInput): string {
  if ("commonPrefix" in entry) {
    return printElement("BlobPrefix", printName(entry.commonPrefix));
  }
  const { blob } = entry.record;
  if (blob === undefined) return printElement("Blob", printName(entry.name) + UNCOMMITTED);
  return printElement(
    "Blob",
    printName(entry.name) +
      printElement("Properties", printProperties(blob, includes.has("copy"), arrivedAt)) +
      (includes.has("metadata") ? printMetadata(blob.metadata) : ""),
  );
}

/** A name that XML cannot carry is percent-encoded and marked as such. */
function printName(name: string): string {
  // A carriage return would reach the client as a line feed.
  if (!hasForbidden(name) && !name.includes("\r")) return printLeaf("Name", name);
  return `<Name Encoded="true">${encodeURIComponent(name)}</Name>`;
}

const UNCOMMITTED = printElement(
  "Properties",
  printLeaf("Content-Length", 0) +
    printLeaf("BlobType", "BlockBlob") +
    printLease(undefined, 0) +
    printLeaf("ServerEncrypted", true),
);

function printProperties(blob: CommittedBlob, withCopy: boolean, now: number): string {
  const { properties } = blob;
  return (
    printLeaf("Creation-Time", lastModifiedOf(blob.created)) +
    printLeaf("Last-Modified", lastModifiedOf(blob.modified)) +
    // Without quotation marks, unlike everywhere else.
    printLeaf("Etag", etagOf(blob.modified)) +
    printLeaf("Content-Length", blob.size) +
    printLeaf("Content-Type", properties.contentType ?? "") +
    printLeaf("Content-Encoding", properties.contentEncoding ?? "") +
    printLeaf("Content-Language", properties.contentLanguage ?? "") +
    printLeaf("Content-MD5", properties.contentMd5 ?? "") +
    printLeaf("Cache-Control", properties.cacheControl ?? "") +
    printLeaf("Content-Disposition", properties.contentDisposition ?? "") +
    printLeaf("BlobType", blob.type) +
    (blob.type === "BlockBlob" ? printTier(blob) : "") +
    printLease(blob.lease, now) +
    (withCopy && blob.copy ? printCopy(blob.copy) : "") +
    printLeaf("ServerEncrypted", true) +
    (blob.sealed ? printLeaf("Sealed", true) : "")
  );
}

function printTier({ accessTier, tierChangedAt }: CommittedBlob): string {
  if (accessTier === undefined) {
    return printLeaf("AccessTier", "Hot") + printLeaf("AccessTierInferred", true);
  }
  const tier = printLeaf("AccessTier", accessTier);
  if (tierChangedAt === undefined) return tier;
  return tier + printLeaf("AccessTierChangeTime", printTime(tierChangedAt));
}

function printCopy({ id, source, bytes, completedAt }: CopyFacts): string {
  return (
    printLeaf("CopyId", id) +
    printLeaf("CopyStatus", "success") +
    printLeaf("CopySource", source) +
    printLeaf("CopyProgress", `${bytes}/${bytes}`) +
    printLeaf("CopyCompletionTime", printTime(completedAt))
  );
}
