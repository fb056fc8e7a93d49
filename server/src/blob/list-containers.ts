import type { Named } from "../catalog/catalog.ts";
import {
  type Listing,
  listingOf,
  printEntries,
  printListing,
  printMetadata,
  REPEATED,
} from "../wire/listing.ts";
import { printElement, printLeaf, xmlResponse } from "../xml/print-xml.ts";
import { type BlobOperation, LOG_CONTAINER } from "./blob-operation.ts";
import type { ContainerValue } from "./container-value.ts";
import { printLease } from "./print-lease.ts";
import { etagOf, lastModifiedOf } from "./validators.ts";

interface ListContainersInput extends Listing {
  readonly arrivedAt: number;
}

interface ListContainersOutput {
  /** XML. */
  readonly entries: string;
  readonly next: string | undefined;
}

/** List Containers: a page of names in ascending order. The marker is the name that comes next. */
export const listContainers: BlobOperation<ListContainersInput, ListContainersOutput> = {
  name: "ListContainers",
  route: { method: "GET", resource: "account", comp: "list" },
  access: { resourceType: "s", accountSas: ["l"], serviceSas: [], bearer: "read" },
  // There are no deleted containers, so including them adds nothing.
  decode: (request) => ({
    ...listingOf(request, ["metadata", "deleted", "system"]),
    arrivedAt: request.arrivedAt,
  }),

  async run({ catalog }, { account, prefix, marker, max, includes, arrivedAt }) {
    const withSystem = includes.has("system");
    const { names, next } = await catalog.page(account, {
      prefix,
      from: marker,
      max,
      shows: (name) => withSystem || name !== LOG_CONTAINER,
    });
    const withMetadata = includes.has("metadata");
    const print = (each: Named<ContainerValue>) => printContainer(each, withMetadata, arrivedAt);
    return { entries: await printEntries(names, print), next };
  },

  encode({ entries, next }, request) {
    const page = { repeated: REPEATED, element: "Containers", entries, nextMarker: next ?? "" };
    return xmlResponse(200, printListing(request, page));
  },
};

function printContainer(
  { name, value }: Named<ContainerValue>,
  withMetadata: boolean,
  now: number,
): string {
  const { modified, lease, publicAccess, metadata } = value;
  const properties =
    printLeaf("Last-Modified", lastModifiedOf(modified)) +
    // In quotation marks, unlike a blob's in the list of blobs.
    printLeaf("Etag", `"${etagOf(modified)}"`) +
    printLease(lease, now) +
    (publicAccess === undefined ? "" : printLeaf("PublicAccess", publicAccess)) +
    printLeaf("DefaultEncryptionScope", "$account-encryption-key") +
    printLeaf("DenyEncryptionScopeOverride", false) +
    printLeaf("HasImmutabilityPolicy", false) +
    printLeaf("HasLegalHold", false) +
    printLeaf("ImmutableStorageWithVersioningEnabled", false);
  return printElement(
    "Container",
    printLeaf("Name", name) +
      printElement("Properties", properties) +
      (withMetadata ? printMetadata(metadata) : ""),
  );
}
