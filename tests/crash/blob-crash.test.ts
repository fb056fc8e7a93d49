import assert from "node:assert/strict";
import { join } from "node:path";
import { describe, it } from "node:test";
import { BlobLab, LabClock } from "@rowhouse/server/blob/test-blob-lab";
import type { ContentStore } from "@rowhouse/server/content/content-store";
import { FileContentStore } from "@rowhouse/server/content/file-content-store";
import type { Engine } from "@rowhouse/server/engine/engine";
import { openLmdbEngine } from "@rowhouse/server/engine/lmdb/lmdb-engine";
import { openPostgresEngine } from "@rowhouse/server/engine/postgres/postgres-engine";
import { LocalServer } from "@rowhouse/server/engine/postgres/test-server";
import { settled } from "../support/database-engine.ts";
import { type RowhouseProcess, startRowhouse, withFolder } from "../support/rowhouse-process.ts";
import { seededRandom } from "../support/seeded-random.ts";
import type { HttpAnswer } from "../wire/http-answer.ts";
import { type StorageCall, StorageWire } from "../wire/storage-wire.ts";
import {
  bytesOf,
  type FoundName,
  judgeName,
  type KnownName,
  LogLedger,
  type NameState,
  NOTHING,
  type Piece,
} from "./blob-ledger.ts";
import { interrupt, type Pace, TWO_WORKERS, type Victim, victimOf } from "./interruption.ts";

const seed = Number(process.env.CRASH_SEED ?? Date.now() % 1_000_000);
const rounds = Number(process.env.CRASH_ROUNDS ?? 3);
const CLIENTS = 6;
const NAMES_EACH = 2;
const LOG = "/docs/shared.log";
const BLOCK_IDS = ["AAAA", "BBBB", "CCCC", "DDDD"];
/** Sizes that fit the engine's rows, exceed them, and need several flushes. */
const SIZES = [1, 3000, 131_072, 131_073, 400_000, 1_500_000];
const LOG_SIZES = [1, 100, 100, 4096, 4096, 200_000];
const BLOCK_BLOB = { "x-ms-blob-type": "BlockBlob" };
const APPEND_BLOB = { "x-ms-blob-type": "AppendBlob" };

/** Where a server stores its data, and how to open that data when no server runs. */
interface Place {
  start(): Promise<RowhouseProcess>;
  open(): Promise<{ readonly engine: Engine; readonly contentStore?: ContentStore }>;
  /** The processes to kill in a round. */
  victimOf?(round: number): Victim;
}

describe(`A server killed during uploads (seed ${seed}, CRASH_SEED repeats it)`, () => {
  it(`keeps every acknowledged upload, shows no partial one and leaves no orphaned content, in each of ${rounds} rounds`, async () => {
    await withFolder((folder) =>
      crash(rounds, {
        start: () => startRowhouse(folder, ["--silent"]),
        open: () => openFolder(folder),
      }),
    );
  });

  it("keeps every acknowledged upload with two workers, whether one or both are killed", async () => {
    await withFolder((folder) =>
      crash(process.env.CRASH_ROUNDS ? rounds : 2, {
        start: () => startRowhouse(folder, TWO_WORKERS),
        open: () => openFolder(folder),
        victimOf,
      }),
    );
  });

  it("keeps every acknowledged upload over PostgreSQL, which is not killed", async () => {
    const database = await LocalServer.create();
    try {
      await database.start();
      const url = await database.createDatabase();
      await withFolder((folder) =>
        crash(process.env.CRASH_ROUNDS ? rounds : 1, {
          start: () => startRowhouse(folder, ["--silent", "--engine", url]),
          async open() {
            await settled(url);
            return { engine: await openPostgresEngine({ url }) };
          },
        }),
      );
    } finally {
      await database.remove();
    }
  });
});

async function openFolder(folder: string) {
  return {
    engine: await openLmdbEngine({ path: folder }),
    contentStore: await FileContentStore.open(join(folder, "contents")),
  };
}

async function crash(rounds: number, place: Place): Promise<void> {
  const random = seededRandom(seed);
  const load = new Load(random);
  let server: RowhouseProcess | undefined;
  try {
    for (let round = 0; round < rounds; round++) {
      server ??= await place.start();
      const { blobUrl } = server;
      const wires = Array.from({ length: CLIENTS + 1 }, () => new Wire(blobUrl));
      if (round === 0) await prepare(wires[0]!);
      else await load.verify((path) => wires[0]!.send("GET", path));
      await noteSpares(wires);
      const halves = beginHalves(blobUrl);
      const victim = place.victimOf?.(round) ?? "everything";
      const answers = 40 + Math.floor(random() * 80);
      await interrupt({ server, victim, answers, random }, (pace) =>
        Promise.all(wires.slice(1).map((wire, number) => load.work(wire, number, pace))),
      );
      for (const wire of [...wires, ...halves]) wire.close();
      if (victim === "worker") continue;
      server = undefined;
      await judgeStored(place, load);
    }
    server ??= await place.start();
    const wire = new Wire(server.blobUrl);
    await load.verify((path) => wire.send("GET", path));
    wire.close();
    assert.equal(await server.stop(), 0);
  } finally {
    await server?.kill();
  }
}

async function prepare(wire: Wire): Promise<void> {
  for (const [path, headers] of [
    ["/docs?restype=container", {}],
    [LOG, APPEND_BLOB],
    ["/docs/half.log", APPEND_BLOB],
  ] as const) {
    assert.equal((await wire.send("PUT", path, { headers })).status, 201);
  }
}

/**
 * Each finished upload has written a note for the next one, so the uploads that follow are stored under these
 * notes.
 */
async function noteSpares(wires: readonly Wire[]): Promise<void> {
  const call = { headers: BLOCK_BLOB, body: Buffer.alloc(200_000, "s") };
  const uploads = wires.slice(0, 3).map((wire, i) => wire.send("PUT", `/docs/spare-${i}`, call));
  for (const { status } of await Promise.all(uploads)) assert.equal(status, 201);
}

/** Uploads that stop in the middle of their bodies and are in flight when the server is killed. */
function beginHalves(url: string): Wire[] {
  const uploads: readonly [string, Record<string, string>][] = [
    ["/docs/half", BLOCK_BLOB],
    ["/docs/half?comp=block&blockid=AAAA", {}],
    ["/docs/half.log?comp=appendblock", {}],
  ];
  return uploads.map(([path, headers]) => {
    const wire = new Wire(url);
    const bytes = wire.bytes("PUT", path, { headers, body: Buffer.alloc(4_000_000, "h") });
    // It is never answered, and its connection ends with the server.
    wire.sendBytes("PUT", bytes.subarray(0, 3_000_000)).catch(() => {});
    return wire;
  });
}

/** Checks the stored data as it is, then again after garbage was collected. */
async function judgeStored(place: Place, load: Load): Promise<void> {
  const { engine, contentStore } = await place.open();
  const clock = new LabClock();
  clock.ms = Date.now();
  const lab = await BlobLab.open({
    engine,
    clock,
    ...(contentStore ? { contentStore } : { inRows: true }),
  });
  await load.verify((path) => lab.send("GET", path));
  for (const [path, status] of [
    ["/docs/half", 404],
    ["/docs/half?comp=blocklist&blocklisttype=all", 404],
    ["/docs/half.log", 200],
  ] as const) {
    const answer = await lab.send("GET", path);
    assert.equal(answer.status, status, path);
    if (status === 200) assert.equal(answer.body.length, 0, "half a block is visible");
  }
  await lab.assertTidy();
  await load.verify((path) => lab.send("GET", path));
  await lab.close();
  await contentStore?.close();
  await engine.close();
}

class Wire extends StorageWire {
  constructor(url: string) {
    super(url, "application/octet-stream");
  }
}

type Get = (path: string) => Promise<{
  readonly status: number;
  readonly body: Buffer;
}>;

/** The writes of all clients, and their acknowledgements. */
class Load {
  readonly #random: () => number;
  readonly #log = new LogLedger();
  readonly #names = new Map<string, KnownName>();
  #pieces = 0;

  constructor(random: () => number) {
    this.#random = random;
    for (let client = 0; client < CLIENTS; client++) {
      for (let name = 0; name < NAMES_EACH; name++) {
        const known = { acknowledged: NOTHING, underWay: undefined };
        this.#names.set(nameOf(client, name), known);
      }
    }
  }

  /** Writes one blob or block after the other, until the round or the server ends. */
  async work(wire: Wire, client: number, pace: Pace): Promise<void> {
    const send: Send = async (path, call, status, method = "PUT") => {
      const answer = await wire.send(method, path, call).catch((cause) => {
        throw new BrokenOff(path, { cause });
      });
      if (status !== undefined) assert.equal(answer.status, status, answer.text);
      pace.answer();
      return answer;
    };
    while (!pace.isOver) {
      try {
        if (this.#random() < 0.4) await this.#append(send);
        else await this.#change(nameOf(client, Math.floor(this.#random() * NAMES_EACH)), send);
      } catch (error) {
        if (!(error instanceof BrokenOff)) throw error;
        if (pace.isLast) return;
        wire.close();
      }
    }
  }

  async #append(send: Send): Promise<void> {
    const piece = this.#piece(LOG_SIZES);
    this.#log.begin(piece);
    const body = LogLedger.bytesOf(piece);
    const answer = await send(`${LOG}?comp=appendblock`, { body }, 201);
    this.#log.acknowledge(piece, Number(answer.header("x-ms-blob-append-offset")));
  }

  async #change(name: string, send: Send): Promise<void> {
    const known = this.#names.get(name)!;
    if (known.underWay) {
      judgeName(name, known, await read(name, (path) => send(path, {}, undefined, "GET")));
    }
    const { uncommitted, content } = known.acknowledged;
    const kind = this.#random();
    const piece = this.#piece(SIZES);
    let next: NameState;
    let change: () => Promise<HttpAnswer>;
    if (kind < 0.35) {
      next = { content: [piece], uncommitted: new Map() };
      change = () => send(name, { headers: BLOCK_BLOB, body: bytesOf(piece) }, 201);
    } else if (kind < 0.75) {
      const id = BLOCK_IDS[Math.floor(this.#random() * BLOCK_IDS.length)]!;
      next = { content, uncommitted: new Map([...uncommitted, [id, piece]]) };
      change = () => send(`${name}?comp=block&blockid=${id}`, { body: bytesOf(piece) }, 201);
    } else if (kind < 0.9) {
      const pieces = [...uncommitted];
      next = { content: pieces.map(([, each]) => each), uncommitted: new Map() };
      const list = pieces.map(([id]) => `<Uncommitted>${id}</Uncommitted>`).join("");
      const body = `<BlockList>${list}</BlockList>`;
      change = () => send(`${name}?comp=blocklist`, { body }, 201);
    } else {
      const status = content || uncommitted.size > 0 ? 202 : 404;
      next = NOTHING;
      change = () => send(name, {}, status, "DELETE");
    }
    known.underWay = next;
    await change();
    known.acknowledged = next;
    known.underWay = undefined;
  }

  /** Compares every blob with what was acknowledged. */
  async verify(get: Get): Promise<void> {
    const log = await get(LOG);
    assert.equal(log.status, 200);
    this.#log.judge(log.body);
    for (const [name, known] of this.#names) judgeName(name, known, await read(name, get));
  }

  #piece(sizes: readonly number[]): Piece {
    const length = sizes[Math.floor(this.#random() * sizes.length)]!;
    return { number: ++this.#pieces, length };
  }
}

/** @throws BrokenOff, or an assertion error if the status differs from the expected one */
type Send = (
  path: string,
  call: StorageCall,
  status: number | undefined,
  method?: string,
) => Promise<HttpAnswer>;

/** The connection broke, so the request may or may not have been executed. */
class BrokenOff extends Error {}

function nameOf(client: number, name: number): string {
  return `/docs/client-${client}/${name}`;
}

async function read(name: string, get: Get): Promise<FoundName> {
  const { status, body } = await get(name);
  const lists = await get(`${name}?comp=blocklist&blocklisttype=uncommitted`);
  const blocks = lists.body.toString().matchAll(/<Name>(.*?)<\/Name><Size>(\d+)<\/Size>/g);
  return {
    content: status === 200 ? body : undefined,
    uncommittedBytes: new Map(Array.from(blocks, ([, id, bytes]) => [id!, Number(bytes)] as const)),
  };
}
