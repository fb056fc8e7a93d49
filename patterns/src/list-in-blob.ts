import type { BlobSpill } from "./list-index.ts";
import { membersIn } from "./lists/queued-list.ts";
import { assertNames } from "./model/storage-name.ts";
import { PointedBlobs } from "./store/pointed-blobs.ts";

/**
 * For `listIndex({ …, spill: listInBlob("lists") })`: a list that outgrows its rows goes on in a blob of this
 * container, an id on each line. @throws invalid-definition for what is no container's name.
 */
export function listInBlob(container: string): BlobSpill {
  assertNames("A list in a blob", { container });
  return {
    container,
    open({ database, entity: { table, name: owner }, name }, property) {
      const blobs = new PointedBlobs(database, { container, table, property, owner, name });
      const { port } = blobs;
      return {
        async read(blob) {
          const found = await port.get(container, blob);
          return found && membersIn(new TextDecoder().decode(found.body));
        },
        async write(list, ids) {
          const blob = blobs.newName(list);
          const body = new TextEncoder().encode(ids.join("\n"));
          await port.put(container, blob, body, { contentType: "text/plain" });
          return blob;
        },
        delete: (blob) => blobs.delete(blob),
        collect: (olderThanMs) => blobs.collect(olderThanMs),
      };
    },
  };
}
