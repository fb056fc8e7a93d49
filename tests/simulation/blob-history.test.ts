import assert from "node:assert/strict";
import { join } from "node:path";
import { describe, it } from "node:test";
import { BlobLab, LabClock, type LabOptions } from "@rowhouse/server/blob/test-blob-lab";
import { FileContentStore } from "@rowhouse/server/content/file-content-store";
import { openLmdbEngine } from "@rowhouse/server/engine/lmdb/lmdb-engine";
import { openDatabaseEngine } from "../support/database-engine.ts";
import { withFolder } from "../support/rowhouse-process.ts";
import { seededRandom } from "../support/seeded-random.ts";
import { BlobModel, type ModelBlob, type Use } from "./blob-model.ts";
import { seed, times } from "./settings.ts";

describe(`A random history of blobs (seed ${seed}, SIMULATION_SEED repeats it)`, () => {
  it("agrees with a plain map, in memory", async () => {
    const history = await History.open({}, seed);
    await history.run(2500 * times);
    await history.end();
  });

  it("agrees with a plain map, on LMDB and files, across restarts", async () => {
    await withFolder(async (path) => {
      const clock = new LabClock();
      const open = async () => ({
        clock,
        engine: await openLmdbEngine({ path, clock }),
        contentStore: await FileContentStore.open(join(path, "contents")),
      });
      let options = await open();
      const history = await History.open(options, seed + 1);
      for (let part = 0; part < 3; part++) {
        await history.run((240 * times) / 3);
        await history.lab.close();
        await options.engine.close();
        options = await open();
        history.lab = await BlobLab.open(options);
      }
      await history.end();
      await options.engine.close();
    });
  });

  it("agrees with a plain map, on PostgreSQL", async () => {
    const clock = new LabClock();
    const engine = await openDatabaseEngine({ clock });
    try {
      const history = await History.open({ clock, engine, inRows: true }, seed + 2);
      await history.run(120 * times);
      await history.end();
    } finally {
      await engine.close();
    }
  });
});

const NAMES = ["a", "b", "dir/a", "dir/b", "dir/sub/c", "é"];
const BLOCK_IDS = ["AAAA", "BBBB", "CCCC", "AAAAAA=="];
const LEASES = ["1f812371-a41d-49e6-b123-f4b542e851c5", "2f812371-a41d-49e6-b123-f4b542e851c5"];
const SIZES = [0, 1, 10, 500, 131_072, 131_073, 400_000];

/** Sends each request to a service and to the model, and compares every answer. */
class History {
  lab: BlobLab;
  readonly #random: () => number;
  readonly #model = new BlobModel();
  /** ETags that the service returned, by the model's version of the blob. */
  readonly #etags = new Map<number, string>();
  #fill = 0;

  private constructor(lab: BlobLab, seed: number) {
    this.lab = lab;
    this.#random = seededRandom(seed);
  }

  static async open(options: LabOptions, seed: number): Promise<History> {
    const lab = await BlobLab.open(options);
    await lab.must("PUT", "/docs?restype=container");
    return new History(lab, seed);
  }

  async run(steps: number): Promise<void> {
    for (let step = 0; step < steps; step++) {
      const [name, action] = this.#choose();
      try {
        await action();
      } catch (error) {
        throw new Error(`Step ${step}, ${name}: ${error}`, { cause: error });
      }
    }
  }

  /** Compares all blobs, and checks that nothing else is stored. */
  async end(): Promise<void> {
    for (const name of NAMES) await this.#compare(name);
    await this.#list();
    await this.lab.assertTidy();
    await this.lab.close();
  }

  #choose(): [string, () => Promise<void>] {
    const actions: [number, string, () => Promise<void>][] = [
      [14, "put blob", () => this.#putBlob()],
      [16, "put block", () => this.#putBlock()],
      [14, "put block list", () => this.#putBlockList()],
      [16, "append", () => this.#append()],
      [2, "seal", () => this.#seal()],
      [6, "set metadata", () => this.#setMetadata()],
      [6, "delete", () => this.#delete()],
      [8, "copy", () => this.#copy()],
      [6, "acquire", () => this.#acquire()],
      [3, "release", () => this.#release()],
      [12, "read", () => this.#compare(this.#pick(NAMES))],
      [4, "list", () => this.#list()],
      [4, "collect", () => this.lab.service.collector.collect()],
      [6, "wait", () => this.#wait()],
    ];
    let at = this.#random() * actions.reduce((sum, [weight]) => sum + weight, 0);
    for (const [weight, name, action] of actions) {
      at -= weight;
      if (at < 0) return [name, action];
    }
    throw new Error("No action was chosen.");
  }

  async #putBlob(): Promise<void> {
    const [name, use] = [this.#pick(NAMES), this.#use()];
    const type = this.#random() < 0.7 ? "BlockBlob" : "AppendBlob";
    const content = type === "BlockBlob" ? this.#content(SIZES) : Buffer.alloc(0);
    await this.#do(
      name,
      this.#model.putBlob(name, type, content, use),
      { "x-ms-blob-type": type },
      ["PUT", "", content],
      use,
    );
  }

  async #putBlock(): Promise<void> {
    const [name, use] = [this.#pick(NAMES), { ...this.#use(), condition: undefined }];
    const id = this.#pick(this.#random() < 0.9 ? BLOCK_IDS.slice(0, 3) : BLOCK_IDS);
    const content = this.#content(SIZES.slice(1));
    const expected = this.#model.putBlock(name, id, content, use);
    const query = `?comp=block&blockid=${encodeURIComponent(id)}`;
    await this.#do(name, expected, {}, ["PUT", query, content], use);
  }

  async #putBlockList(): Promise<void> {
    const [name, use] = [this.#pick(NAMES), this.#use()];
    const choices = Array.from({ length: Math.floor(this.#random() * 4) }, () => {
      const from = this.#pick(["Latest", "Latest", "Uncommitted", "Committed"]);
      return [from, this.#pick(this.#knownBlocks(name))] as const;
    });
    const expected = this.#model.putBlockList(name, choices, use);
    const blocks = choices.map(([from, id]) => `<${from}>${id}</${from}>`).join("");
    const body = Buffer.from(`<BlockList>${blocks}</BlockList>`);
    await this.#do(name, expected, {}, ["PUT", "?comp=blocklist", body], use);
  }

  async #append(): Promise<void> {
    const [name, use] = [this.#pickOf("AppendBlob"), this.#use()];
    const content = this.#content(SIZES.slice(1));
    const size = this.#model.blobs.get(name)?.content.length ?? 0;
    const position = this.#random() < 0.2 ? size + Math.floor(this.#random() * 2) : undefined;
    const headers: Record<string, string> =
      position === undefined ? {} : { "x-ms-blob-condition-appendpos": String(position) };
    const expected = this.#model.append(name, content, use, position);
    await this.#do(name, expected, headers, ["PUT", "?comp=appendblock", content], use);
  }

  async #seal(): Promise<void> {
    const [name, use] = [this.#pickOf("AppendBlob"), this.#use()];
    const expected = this.#model.seal(name, use);
    await this.#do(name, expected, {}, ["PUT", "?comp=seal"], use);
  }

  async #setMetadata(): Promise<void> {
    const [name, use] = [this.#pick(NAMES), this.#use()];
    const expected = this.#model.setMetadata(name, use);
    await this.#do(name, expected, {}, ["PUT", "?comp=metadata"], use);
  }

  async #delete(): Promise<void> {
    const [name, use] = [this.#pick(NAMES), this.#use()];
    const expected = this.#model.delete(name, use);
    await this.#do(name, expected, {}, ["DELETE", ""], use);
  }

  async #copy(): Promise<void> {
    const [from, to, use] = [this.#pick(NAMES), this.#pick(NAMES), this.#use()];
    const expected = this.#model.copy(from, to, use);
    const source = `http://127.0.0.1:10000/devstoreaccount1${pathOf(from)}`;
    await this.#do(to, expected, { "x-ms-copy-source": source }, ["PUT", ""], use);
  }

  async #acquire(): Promise<void> {
    const [name, id] = [this.#pick(NAMES), this.#pick(LEASES)];
    const seconds = this.#pick([-1, 15, 60]);
    const { now } = this.#use();
    const use = { now, metadata: "", leaseId: undefined, condition: undefined };
    const expected = this.#model.acquire(name, id, seconds, use);
    const headers = {
      "x-ms-lease-action": "acquire",
      "x-ms-lease-duration": String(seconds),
      "x-ms-proposed-lease-id": id,
    };
    await this.#do(name, expected, headers, ["PUT", "?comp=lease"], use);
  }

  async #release(): Promise<void> {
    const [name, id] = [this.#pick(NAMES), this.#pick(LEASES)];
    const headers = { "x-ms-lease-action": "release", "x-ms-lease-id": id };
    const answer = await this.lab.send("PUT", `${pathOf(name)}?comp=lease`, { headers });
    assert.equal(outcomeOf(answer), this.#model.release(name, id));
  }

  async #wait(): Promise<void> {
    const { clock, service } = this.lab;
    clock.ms += this.#pick([1, 1000, 20_000, 60_000, 3 * 24 * 3_600_000]);
    await service.draftExpiry.expire();
    this.#model.expire(clock.ms);
  }

  async #compare(name: string): Promise<void> {
    const blob = this.#model.blobs.get(name);
    const answer = await this.lab.send("GET", pathOf(name));
    if (!blob) {
      assert.equal(outcomeOf(answer), "404 BlobNotFound");
    } else {
      assert.equal(answer.status, 200);
      assert.ok(answer.body.equals(blob.content), `${name}: ${answer.body.length} bytes`);
      assert.equal(answer.headers.get("x-ms-meta-m") ?? "", blob.metadata);
      assert.equal(answer.headers.get("etag"), this.#etags.get(blob.version));
      await this.#compareRange(name, blob.content);
    }
    const draft = this.#model.drafts.get(name);
    if (blob?.type === "AppendBlob" || (!blob && !draft)) return;
    const lists = await this.lab.must("GET", `${pathOf(name)}?comp=blocklist&blocklisttype=all`);
    const print = (blocks: Iterable<readonly [string, Buffer]>) =>
      [...blocks].map(([id, { length }]) => `${id} ${length}`);
    const [committed = "", uncommitted = ""] = lists.body.toString().split("<UncommittedBlocks");
    assert.deepEqual(blocksIn(committed), print(blob?.committed ?? []));
    assert.deepEqual(blocksIn(uncommitted), print(draft?.blocks ?? []).sort());
  }

  async #compareRange(name: string, content: Buffer): Promise<void> {
    if (content.length === 0) return;
    const first = Math.floor(this.#random() * content.length);
    const last = first + Math.floor(this.#random() * content.length);
    const headers = { "x-ms-range": `bytes=${first}-${last}` };
    const { status, body } = await this.lab.must("GET", pathOf(name), { headers });
    assert.equal(status, 206);
    assert.ok(body.equals(content.subarray(first, last + 1)), `${name}: ${first}-${last}`);
  }

  async #list(): Promise<void> {
    const withUncommitted = this.#random() < 0.5;
    const query = withUncommitted ? "&include=uncommittedblobs" : "";
    const answer = await this.lab.must("GET", `/docs?restype=container&comp=list${query}`);
    const found = [...answer.body.toString().matchAll(/<Name>(.*?)<\/Name>/g)].map(([, n]) => n);
    const names = new Set(this.#model.blobs.keys());
    if (withUncommitted) for (const name of this.#model.drafts.keys()) names.add(name);
    const expected = [...names].sort((a, b) => Buffer.compare(Buffer.from(a), Buffer.from(b)));
    assert.deepEqual(found, expected);
  }

  async #do(
    name: string,
    expected: string,
    headers: Record<string, string>,
    [method, query, body]: readonly [string, string, Buffer?],
    use: Use & { readonly etag?: string },
  ): Promise<void> {
    const all: Record<string, string> = { ...headers };
    if (use.metadata) all["x-ms-meta-m"] = use.metadata;
    if (use.leaseId) all["x-ms-lease-id"] = use.leaseId;
    if (use.condition === "absent") all["If-None-Match"] = "*";
    else if (use.etag) all["If-Match"] = use.etag;
    const answer = await this.lab.send(method, pathOf(name) + query, {
      headers: all,
      body: body ?? "",
    });
    assert.equal(outcomeOf(answer), expected);
    const version = this.#model.blobs.get(name)?.version;
    const etag = answer.headers.get("etag");
    if (answer.status >= 300 || version === undefined || etag === undefined) return;
    assert.equal(this.#etags.get(version) ?? etag, etag);
    this.#etags.set(version, etag);
  }

  #use(): Use & { etag?: string } {
    const metadata = this.#random() < 0.3 ? `m${Math.floor(this.#random() * 10)}` : "";
    const leaseId = this.#random() < 0.25 ? this.#pick(LEASES) : undefined;
    const use = { now: this.lab.clock.ms, metadata, leaseId };
    const kind = this.#random();
    if (kind < 0.1) return { ...use, condition: "absent" };
    if (kind > 0.25) return { ...use, condition: undefined };
    // The ETag of some blob, current or stale.
    const [version, etag] = this.#pick([...this.#etags].slice(-6)) ?? [];
    return etag === undefined || version === undefined
      ? { ...use, condition: undefined }
      : { ...use, condition: version, etag };
  }

  #knownBlocks(name: string): readonly string[] {
    const draft = this.#model.drafts.get(name);
    const committed = this.#model.blobs.get(name)?.committed.map(([id]) => id) ?? [];
    const known = [...(draft?.blocks.keys() ?? []), ...committed];
    return this.#random() < 0.9 && known.length > 0 ? known : BLOCK_IDS;
  }

  #pickOf(type: ModelBlob["type"]): string {
    const names = [...this.#model.blobs].filter(([, blob]) => blob.type === type);
    return names.length > 0 && this.#random() < 0.9 ? this.#pick(names)[0] : this.#pick(NAMES);
  }

  #content(sizes: readonly number[]): Buffer {
    return Buffer.alloc(this.#pick(sizes), ++this.#fill % 251);
  }

  #pick<T>(from: readonly T[]): T {
    return from[Math.floor(this.#random() * from.length)]!;
  }
}

function pathOf(name: string): string {
  return `/docs/${encodeURIComponent(name).replaceAll("%2F", "/")}`;
}

function outcomeOf({
  status,
  headers,
}: {
  status: number;
  headers: ReadonlyMap<string, string>;
}): string {
  const code = headers.get("x-ms-error-code");
  return code === undefined ? String(status) : `${status} ${code}`;
}

function blocksIn(xml: string): string[] {
  const blocks = xml.matchAll(/<Name>(.*?)<\/Name><Size>(\d+)<\/Size>/g);
  return [...blocks].map(([, id, length]) => `${id} ${length}`);
}
