import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { Awaitable } from "../awaitable.ts";
import type { ContentStore } from "../content/content-store.ts";
import { MemoryContentStore } from "../content/memory-content-store.ts";
import { type Engine, EngineError } from "../engine/engine.ts";
import { MemoryEngine } from "../engine/memory-engine.ts";
import { decorated } from "../engine/test-decorated.ts";
import { auditBlobs } from "./test-audit-blobs.ts";
import { APPEND, BLOCK, BlobLab, LabClock, type LabRequest, ROOT } from "./test-blob-lab.ts";

const DAY_MS = 24 * 3_600_000;

/** An action on a blob, which returns the server's answer. */
type Act = (lab: BlobLab) => Promise<string>;

const ACTS: Readonly<Record<string, Act>> = {
  "Put Blob": send("PUT", "/docs/a", { headers: BLOCK, body: large("p") }),
  "Put Blob, append": send("PUT", "/docs/a", { headers: APPEND }),
  "Put Block": send("PUT", "/docs/a?comp=block&blockid=DDDD", { body: large("d") }),
  "Put Block, again": send("PUT", "/docs/a?comp=block&blockid=CCCC", { body: large("c") }),
  "Put Block List": send("PUT", "/docs/a?comp=blocklist", listOf(["BBBB", "CCCC"])),
  // Its extents are stored before its commit.
  "Put Block List, long": send("PUT", "/docs/a?comp=blocklist", listOf(Array(251).fill("CCCC"))),
  "Append Block": send("PUT", "/docs/a?comp=appendblock", { body: large("x") }),
  "Copy Blob from it": send("PUT", "/docs/b", copyOf("a")),
  "Copy Blob onto itself": send("PUT", "/docs/a", copyOf("a")),
  "Delete Blob": send("DELETE", "/docs/a"),
};
/** Background work that may come between. */
const BACKGROUND: Readonly<Record<string, Act>> = {
  async "the collector"(lab) {
    await lab.service.collector.collect();
    return "";
  },
  async "the expiry of drafts"(lab) {
    lab.clock.ms += 8 * DAY_MS;
    await lab.service.draftExpiry.expire();
    return "";
  },
};

const BLOBS: Readonly<Record<string, (lab: BlobLab) => Promise<void>>> = {
  async "a block blob with uncommitted blocks"(lab) {
    await lab.must("PUT", "/docs/a?comp=block&blockid=AAAA", { body: small("1") });
    await lab.must("PUT", "/docs/a?comp=block&blockid=BBBB", { body: large("2") });
    await lab.must("PUT", "/docs/a?comp=blocklist", listOf(["AAAA", "BBBB", "AAAA"]));
    await lab.must("PUT", "/docs/a?comp=block&blockid=CCCC", { body: large("3") });
  },
  async "an append blob"(lab) {
    await lab.must("PUT", "/docs/a", { headers: APPEND });
    await lab.must("PUT", "/docs/a?comp=appendblock", { body: small("1") });
    await lab.must("PUT", "/docs/a?comp=appendblock", { body: large("2") });
  },
};

/*
 * A process goes from one commit, or one file change, to the next. Before each of these steps, it may be
 * killed, or another process may act on the same blob. The result must be as if one had acted after the
 * other, with nothing missing and nothing left over.
 */
describe("At each step of an operation on a blob", () => {
  for (const [blob, make] of Object.entries(BLOBS)) {
    it(`the process may be killed: ${blob}`, async () => {
      for (const [name, act] of Object.entries(ACTS)) {
        const before = await inTurn(make, []);
        const after = await inTurn(make, [act]);
        for (let step = 0, isKilled = true; isKilled; step++) {
          isKilled = false;
          const disk = await Disk.with(make);
          const lab = await disk.open(async (at) => {
            if (at < step) return;
            isKilled = true;
            throw new EngineError("Unavailable", "The process is killed.");
          });
          const answer = await act(lab);
          const found = await disk.settled();
          const isDone = answer === after.answers[0] || !isKilled;
          const expected = isDone ? after.found : before.found;
          assert.equal(found, expected, `${name}, killed before step ${step}: ${answer}`);
        }
      }
    });

    it(`another process may operate on the blob: ${blob}`, async () => {
      for (const [name, act] of Object.entries(ACTS)) {
        for (const [rival, other] of Object.entries({ ...ACTS, ...BACKGROUND })) {
          const orders = [await inTurn(make, [act, other]), await inTurn(make, [other, act])];
          const expected = new Set(
            orders.map(({ found, answers: [one, two] }, i) =>
              [...(i === 0 ? [one, two] : [two, one]), found].join("\n"),
            ),
          );
          for (let step = 0, isReached = true; isReached; step++) {
            isReached = false;
            const disk = await Disk.with(make);
            const beside = await disk.open();
            const answers = ["", ""];
            const coming: Promise<void>[] = [];
            const lab = await disk.open((at) => {
              if (at !== step) return;
              isReached = true;
              const come = async () => {
                answers[1] = await other(beside);
              };
              coming.push(come());
              return coming[0];
            });
            answers[0] = await act(lab);
            await Promise.all(coming);
            await lab.close();
            await beside.close();
            if (!isReached) break;
            // They share a process id, so each takes what the other is making for a dead process's.
            if (answers.some((answer) => answer.startsWith("503"))) continue;
            const found = [...answers, await disk.settled()].join("\n");
            if (!expected.has(found)) {
              const orders = [...expected].join("\n or \n");
              assert.fail(
                `${name}, with ${rival} before step ${step}:\n${found}\n not \n${orders}`,
              );
            }
          }
        }
      }
    });
  }
});

/** The state that outlives processes. */
class Disk {
  readonly #clock = new LabClock();
  readonly #engine = new MemoryEngine({ clock: this.#clock });
  readonly #contents = new MemoryContentStore();

  static async with(make: (lab: BlobLab) => Promise<void>): Promise<Disk> {
    const disk = new Disk();
    const lab = await disk.open();
    await lab.must("PUT", "/docs?restype=container");
    await make(lab);
    await lab.close();
    return disk;
  }

  /** @param before called with the number of each step, and awaited */
  open(before: (step: number) => Awaitable<void> = () => {}): Promise<BlobLab> {
    let steps = 0;
    const step = async () => before(steps++);
    return BlobLab.open({
      engine: engineIn(this.#engine, step),
      contentStore: contentsIn(this.#contents, step),
      clock: this.#clock,
      onError() {},
    });
  }

  /** Everything that clients see, once background work is done. */
  async settled(): Promise<string> {
    assert.deepEqual((await auditBlobs(this.#engine, this.#contents)).missing, []);
    const lab = await this.open();
    await lab.assertTidy();
    const all: string[] = [];
    for (const path of ["/docs/a", "/docs/b"]) {
      const { status, body } = await lab.send("GET", path);
      const blocks = await lab.send("GET", `${path}?comp=blocklist&blocklisttype=uncommitted`);
      const names = blocks.body.toString().match(/<(?:Name|Size)>[^<]*/g) ?? [];
      all.push(status === 200 ? runsOf(body) : String(status), ...names);
    }
    await lab.close();
    return all.join(" ");
  }
}

function engineIn(engine: Engine, step: () => Promise<void>): Engine {
  return decorated(engine, {
    supports: { ...engine.supports, sharing: true },
    takeSlot() {},
    isShared: () => true,
    async commit(write) {
      await step();
      return engine.commit(write);
    },
  });
}

function contentsIn(contentStore: ContentStore, step: () => Promise<void>): ContentStore {
  return {
    async write(id, bytes) {
      await step();
      await contentStore.write(id, bytes);
    },
    read: (id, start, end) => contentStore.read(id, start, end),
    async copy(from, to) {
      await step();
      await contentStore.copy(from, to);
    },
    async delete(id) {
      await step();
      await contentStore.delete(id);
    },
    list: () => contentStore.list(),
    close: () => contentStore.close(),
  };
}

async function inTurn(make: (lab: BlobLab) => Promise<void>, acts: readonly Act[]) {
  const disk = await Disk.with(make);
  const lab = await disk.open();
  const answers: string[] = [];
  for (const act of acts) answers.push(await act(lab));
  await lab.close();
  return { answers, found: await disk.settled() };
}

function send(method: string, path: string, request?: LabRequest): Act {
  return async (lab) => {
    const { status, headers } = await lab.send(method, path, request);
    return `${status} ${headers.get("x-ms-error-code") ?? ""}`;
  };
}

function small(fill: string): Buffer {
  return Buffer.alloc(1000, fill);
}

/** Too large for a row. */
function large(fill: string): Buffer {
  return Buffer.alloc(132_000, fill);
}

function listOf(ids: readonly string[]): LabRequest {
  return { body: `<BlockList>${ids.map((id) => `<Latest>${id}</Latest>`).join("")}</BlockList>` };
}

function copyOf(blob: string): LabRequest {
  return { headers: { "x-ms-copy-source": `${ROOT}/docs/${blob}` } };
}

/** For example `1×1000 2×132000`. */
function runsOf(bytes: Uint8Array): string {
  const runs: string[] = [];
  for (let at = 0; at < bytes.length; ) {
    const from = at;
    while (at < bytes.length && bytes[at] === bytes[from]) at++;
    runs.push(`${String.fromCharCode(bytes[from]!)}×${at - from}`);
  }
  return runs.join(" ");
}
