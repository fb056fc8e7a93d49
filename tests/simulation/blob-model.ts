/**
 * A naive model of blobs: a map from names to contents, with nothing shared or compacted. Returns the status
 * and code that the service must answer each request with.
 */
export class BlobModel {
  readonly blobs = new Map<string, ModelBlob>();
  /** Uncommitted blocks by name, and when the last one was put. */
  readonly drafts = new Map<string, { blocks: Map<string, Buffer>; touchedAt: number }>();

  putBlob(name: string, type: ModelBlob["type"], content: Buffer, use: Use): string {
    const blob = this.blobs.get(name);
    const refusal = refusalOf(blob, use, true);
    if (refusal) return refusal;
    this.#write(name, { type, content, committed: [], metadata: use.metadata, blocks: 0 }, use);
    this.drafts.delete(name);
    return "201";
  }

  putBlock(name: string, id: string, content: Buffer, use: Use): string {
    const blob = this.blobs.get(name);
    if (blob && blob.type !== "BlockBlob") return "409 InvalidBlobType";
    const refusal = leaseOf(blob, use);
    if (refusal) return refusal;
    const draft = this.drafts.get(name);
    if (draft && [...draft.blocks.keys()][0]!.length !== id.length) return "400 InvalidBlobOrBlock";
    const blocks = draft?.blocks ?? new Map<string, Buffer>();
    blocks.set(id, content);
    this.drafts.set(name, { blocks, touchedAt: use.now });
    if (blob && stateOf(blob.lease, use.now) !== "leased") blob.lease = undefined;
    return "201";
  }

  putBlockList(name: string, choices: readonly (readonly [from: string, id: string])[], use: Use) {
    const blob = this.blobs.get(name);
    if (blob && blob.type !== "BlockBlob") return "409 InvalidBlobType";
    const refusal = refusalOf(blob, use, true);
    if (refusal) return refusal;
    const uncommitted = this.drafts.get(name)?.blocks ?? new Map<string, Buffer>();
    const committed = new Map(blob?.committed);
    const blocks = choices.map(([from, id]) => {
      const found =
        (from === "Committed" ? undefined : uncommitted.get(id)) ??
        (from === "Uncommitted" ? undefined : committed.get(id));
      return [id, found] as const;
    });
    if (blocks.some(([, content]) => content === undefined)) return "400 InvalidBlockList";
    const list = blocks as readonly (readonly [string, Buffer])[];
    const content = Buffer.concat(list.map(([, bytes]) => bytes));
    const made = {
      type: "BlockBlob",
      content,
      committed: list,
      metadata: use.metadata,
      blocks: 0,
    } as const;
    this.#write(name, made, use);
    this.drafts.delete(name);
    return "201";
  }

  append(name: string, content: Buffer, use: Use, position: number | undefined): string {
    const blob = this.blobs.get(name);
    if (!blob) return "404 BlobNotFound";
    if (blob.type !== "AppendBlob") return "409 InvalidBlobType";
    const refusal = refusalOf(blob, use, false);
    if (refusal) return refusal;
    if (blob.sealed) return "409 BlobIsSealed";
    if (position !== undefined && position !== blob.content.length) {
      return "412 AppendPositionConditionNotMet";
    }
    const grown = {
      ...blob,
      content: Buffer.concat([blob.content, content]),
      blocks: blob.blocks + 1,
    };
    this.#write(name, grown, use);
    return "201";
  }

  seal(name: string, use: Use): string {
    const blob = this.blobs.get(name);
    if (!blob) return "404 BlobNotFound";
    if (blob.type !== "AppendBlob") return "409 InvalidBlobType";
    const refusal = refusalOf(blob, use, false);
    if (refusal) return refusal;
    blob.sealed = true;
    if (stateOf(blob.lease, use.now) !== "leased") blob.lease = undefined;
    return "200";
  }

  setMetadata(name: string, use: Use): string {
    const blob = this.blobs.get(name);
    if (!blob) return "404 BlobNotFound";
    const refusal = refusalOf(blob, use, false);
    if (refusal) return refusal;
    this.#write(name, { ...blob, metadata: use.metadata }, use);
    return "200";
  }

  delete(name: string, use: Use): string {
    const blob = this.blobs.get(name);
    if (!blob && !this.drafts.has(name)) return "404 BlobNotFound";
    const refusal = refusalOf(blob, use, false);
    if (refusal) return refusal;
    this.blobs.delete(name);
    this.drafts.delete(name);
    return "202";
  }

  copy(from: string, to: string, use: Use): string {
    const source = this.blobs.get(from);
    if (!source) return "404 BlobNotFound";
    const blob = this.blobs.get(to);
    if (blob && blob.type !== source.type) return "409 InvalidBlobType";
    const refusal = refusalOf(blob, use, true);
    if (refusal) return refusal;
    if (blob && stateOf(blob.lease, use.now) === "leased" && blob.lease!.endsAt !== undefined) {
      return "412 InfiniteLeaseDurationRequired";
    }
    const metadata = use.metadata === "" ? source.metadata : use.metadata;
    this.#write(to, { ...source, metadata }, use, blob);
    this.drafts.delete(to);
    return "202";
  }

  acquire(name: string, id: string, seconds: number, use: Use): string {
    const blob = this.blobs.get(name);
    if (!blob) return "404 BlobNotFound";
    const state = stateOf(blob.lease, use.now);
    if (state === "leased" && blob.lease!.id !== id) return "409 LeaseAlreadyPresent";
    blob.lease = seconds < 0 ? { id } : { id, endsAt: use.now + seconds * 1000 };
    return "201";
  }

  release(name: string, id: string): string {
    const blob = this.blobs.get(name);
    if (!blob) return "404 BlobNotFound";
    if (blob.lease?.id !== id) return "409 LeaseIdMismatchWithLeaseOperation";
    blob.lease = undefined;
    return "200";
  }

  /** Removes drafts that no request touched for a week. */
  expire(now: number): void {
    for (const [name, { touchedAt }] of this.drafts) {
      if (touchedAt < now - 7 * 24 * 3_600_000) this.drafts.delete(name);
    }
  }

  /** A write keeps an active lease and drops any other. */
  #write(
    name: string,
    made: Omit<ModelBlob, "lease" | "version">,
    use: Use,
    before = this.blobs.get(name),
  ) {
    const lease = stateOf(before?.lease, use.now) === "leased" ? before?.lease : undefined;
    this.blobs.set(name, { ...made, lease, version: ++this.#versions });
  }

  #versions = 0;
}

export interface ModelBlob {
  readonly type: "BlockBlob" | "AppendBlob";
  readonly content: Buffer;
  readonly committed: readonly (readonly [id: string, content: Buffer])[];
  readonly metadata: string;
  readonly blocks: number;
  sealed?: boolean;
  lease: { readonly id: string; readonly endsAt?: number } | undefined;
  /** Changes with every change of the ETag. */
  readonly version: number;
}

/** The parts that every request has. */
export interface Use {
  /** Milliseconds since 1970. */
  readonly now: number;
  readonly metadata: string;
  readonly leaseId: string | undefined;
  /** The version that If-Match names, or "absent" if the blob must not exist. */
  readonly condition: number | "absent" | undefined;
}

/** The lease comes first; whoever holds it may replace a blob that must not exist. */
function refusalOf(blob: ModelBlob | undefined, use: Use, creates: boolean): string | undefined {
  const isHeld = use.leaseId !== undefined && stateOf(blob?.lease, use.now) === "leased";
  const isWaived = isHeld && creates && use.condition === "absent";
  return leaseOf(blob, use) ?? (isWaived ? undefined : conditionsOf(blob, use, creates));
}

function conditionsOf(
  blob: ModelBlob | undefined,
  { condition }: Use,
  creates: boolean,
): string | undefined {
  if (condition === undefined) return undefined;
  if (condition === "absent") {
    if (!blob) return undefined;
    return creates ? "409 BlobAlreadyExists" : "412 ConditionNotMet";
  }
  return blob?.version === condition ? undefined : "412 ConditionNotMet";
}

function leaseOf(blob: ModelBlob | undefined, { leaseId, now }: Use): string | undefined {
  const lease = blob?.lease;
  if (stateOf(lease, now) === "leased") {
    if (leaseId === undefined) return "412 LeaseIdMissing";
    return leaseId === lease!.id ? undefined : "412 LeaseIdMismatchWithBlobOperation";
  }
  if (leaseId === undefined) return undefined;
  return leaseId === lease?.id ? "412 LeaseLost" : "412 LeaseNotPresentWithBlobOperation";
}

function stateOf(lease: ModelBlob["lease"], now: number): "available" | "leased" | "expired" {
  if (!lease) return "available";
  return lease.endsAt === undefined || lease.endsAt > now ? "leased" : "expired";
}
