import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { testContentStoreConformance } from "./conformance.ts";
import type { ContentStore } from "./content-store.ts";
import { FileContentStore } from "./file-content-store.ts";

testContentStoreConformance({
  name: "FileContentStore",
  open: () => FileContentStore.open(mkdtempSync(join(tmpdir(), "rowhouse-contents-"))),
  reopen: (closed) => FileContentStore.open(pathOf(closed)),
  discard: async (closed) => rmSync(pathOf(closed), { recursive: true }),
});

function pathOf(store: ContentStore): string {
  if (!(store instanceof FileContentStore)) throw new Error("Not a store of files.");
  return store.path;
}
