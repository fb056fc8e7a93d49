import type { FollowerContext } from "../model/follower.ts";
import type { EntityKey } from "../ports/tables.ts";
import { blobsOf } from "../store/connected-ports.ts";
import { PointedBlobs } from "./pointed-blobs.ts";
import { membersIn } from "./queued-list.ts";

/** Immutable blobs, each holding a list with one id per line, named by the property of a row. */
export class ListBlobs extends PointedBlobs {
  /** @throws unsupported-by-profile where the database was connected without blobs. */
  constructor({ session, entity, name }: FollowerContext, property: string, container: string) {
    const { table, name: owner } = entity;
    blobsOf(session);
    super(session, { container, table, property, owner, name });
  }

  /** Undefined for a blob that is gone. */
  async read(blob: string): Promise<string[] | undefined> {
    const found = await this.port.get(this.container, blob);
    return found && membersIn(new TextDecoder().decode(found.body));
  }

  /** @returns the name of a new blob. */
  async write(list: EntityKey, ids: readonly string[]): Promise<string> {
    const blob = this.newName(list);
    const body = new TextEncoder().encode(ids.join("\n"));
    await this.port.put(this.container, blob, body, { contentType: "text/plain" });
    return blob;
  }
}
