import { totalmem } from "node:os";
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { ServiceError } from "@rowhouse/protocol/errors";
import { LIMITS } from "@rowhouse/protocol/limits";

/** One account, or one address, may occupy so much of it. */
const GROUP_SHARE = 1 / 2;
/** Above this, unread answers are cut however new they are: nobody asked whether there was room for them. */
const OVERFULL = 1.5;
const SWEEP_MS = 500;
const SWEEPS_PER_SECOND = 1000 / SWEEP_MS;
const REPORT_MS = 60_000;
const BURST_BYTES = 32 << 20;
/** By then the connections that held it are closed, too. */
const COLLECT_SWEEPS = 10 * SWEEPS_PER_SECOND;
/** What an answer that comes in parts may take, until its first part shows it; in a small room, that share of it. */
const BEGUN_ANSWER_BYTES = 512 << 10;
const BEGUN_ANSWER_SHARE = 1 / 16;
/** Answers that wait leave so much for bodies: those that wait for the disk cannot be cut, and nobody is to blame. */
const BODIES_SHARE = 1 / 16;
/** When so many answers in a row find no room, those behind them are not asked. */
const FAILURES_MAX = 16;
/** Who is faster than this, or has not been waited for so long, is not cut to make room, but others are refused. */
const PATIENCE_SWEEPS = 2 * SWEEPS_PER_SECOND;
const SLOW_BYTES_PER_SECOND = 32 << 10;
/**
 * How long a rate is measured before it may be too low. The system's send buffer empties in steps of up to a
 * megabyte, which a slow reader may take a minute for.
 */
const RATE_SECONDS = { body: 30, reader: 120 } as const;

/** What this process does for a connection that holds memory. */
export interface PeerConnection {
  readonly remoteAddress: string;
  /** The account that the current request is for; "" until the caller is known. */
  readonly account: string;
  /** Whether it has ended. */
  readonly isGone: boolean;
  /** Ends the connection without an answer. */
  destroy(): unknown;
}

/** What happened to peers since the last report. */
export interface PeerReport {
  /** Bytes held now. */
  readonly bytes: number;
  /** Connections cut because they were the slowest when there was no room. */
  readonly cutForRoom: number;
  /** Connections cut because they stayed below the minimum rate. */
  readonly cutForRate: number;
  /** Requests refused because there was no room. */
  readonly refused: number;
}

export interface PeerMemoryOptions {
  /** Default: a share of this machine's memory, or of the container's, within limits. */
  readonly bytesMax?: number;
  /** Monotonic milliseconds. */
  readonly now?: () => number;
  /** Whether `sweep` is called by a timer. Default true. */
  readonly sweeps?: boolean;
  /** Called once a minute at most, if connections were cut or requests refused. */
  readonly onReport?: (report: PeerReport) => void;
}

/**
 * Accounts for all memory that clients make this process hold: bytes of requests that are not whole, bodies until
 * their answer, and answers until they are read; before and after authentication, on every port and lane. Bytes
 * count as they arrive, not as they are announced.
 *
 * When there is no room, in total or for the account or the address that needs some, connections that the server
 * waits for are cut, the slowest first; if there are none that are slow, the request is refused with ServerBusy and
 * the client retries. Queueing it instead would let slow senders delay all others.
 */
export class PeerMemory {
  readonly #bytesMax: number;
  readonly #begunAnswerBytes: number;
  readonly #leftForBodies: number;
  readonly #now: () => number;
  readonly #sweeps: boolean;
  readonly #onReport: (report: PeerReport) => void;
  readonly #holdings = new Set<Holding>();
  /** Bytes by account and by address. */
  readonly #groups = new Map<string, number>();
  #bytes = 0;
  /** Who may be cut, the slowest first; made once per sweep, when it is needed. */
  #slowest: Holding[] | undefined;
  /** The most since garbage was last collected. */
  #bytesPeak = 0;
  /** Sweeps until garbage is collected; 0: never. */
  #collectIn = 0;
  /** Answers for which there was no room, in the order they will be begun in. */
  #waiting: WaitingAnswer[] = [];
  #timer: NodeJS.Timeout | undefined;
  #reportedAt: number;
  #reported = NOTHING_YET;
  #counts = NOTHING_YET;

  constructor(options: PeerMemoryOptions = {}) {
    const share = memoryBytes() * LIMITS.peerMemoryShare;
    const { peerMemoryBytesMin, peerMemoryBytesMax } = LIMITS;
    this.#bytesMax =
      options.bytesMax ?? Math.min(Math.max(share, peerMemoryBytesMin), peerMemoryBytesMax);
    this.#begunAnswerBytes = Math.min(BEGUN_ANSWER_BYTES, this.#bytesMax * BEGUN_ANSWER_SHARE);
    this.#leftForBodies = this.#bytesMax * BODIES_SHARE;
    this.#now = options.now ?? (() => performance.now());
    this.#sweeps = options.sweeps ?? true;
    this.#onReport = options.onReport ?? (() => {});
    this.#reportedAt = this.#now();
  }

  /** Bytes held at present. */
  get bytes(): number {
    return this.#bytes;
  }

  /** Since the start of this process. */
  get counts(): Omit<PeerReport, "bytes"> {
    return this.#counts;
  }

  /** @internal Counts `bytes` more for a holding, or less. */
  count(holding: Holding, bytes: number): void {
    this.#bytes += bytes;
    for (const group of holding.groups) {
      const total = (this.#groups.get(group) ?? 0) + bytes;
      if (total === 0) this.#groups.delete(group);
      else this.#groups.set(group, total);
    }
  }

  /** @internal Call it when a holding has begun or ceased to hold anything or to be waited for. */
  keep(holding: Holding): void {
    if (!holding.isActive) {
      this.#holdings.delete(holding);
      return;
    }
    this.#holdings.add(holding);
    if (this.#sweeps) this.#timer ??= setInterval(() => this.sweep(), SWEEP_MS).unref();
  }

  /** @internal Whether there is room for so many bytes more, after slower connections have been cut. */
  makeRoom(holding: Holding, bytes: number): boolean {
    if (this.#fits(holding, bytes)) return true;
    this.#slowest ??= [...this.#holdings].filter((each) => each.isSlow).sort(bySpeed);
    return this.#cutUntilFits(this.#slowest, holding, bytes);
  }

  /** @internal The same for an answer, which is in memory already. */
  makeRoomForAnswer(holding: Holding): void {
    if (this.makeRoom(holding, 0) || this.#bytes <= OVERFULL * this.#bytesMax) return;
    const all = [...this.#holdings].filter((each) => each.waitsFor !== undefined);
    this.#cutUntilFits(all.sort(bySpeed), holding, 0);
  }

  /** @internal Resolves when the holding has room for the first part of an answer, or its connection is gone. */
  async beginAnswer(holding: Holding): Promise<void> {
    if (this.#waiting.length === 0 && this.#begins(holding)) return;
    return new Promise((resolve) => this.#waiting.push({ holding, resolve }));
  }

  /** @internal */
  refuse(): ServiceError {
    this.#counts = { ...this.#counts, refused: this.#counts.refused + 1 };
    return new ServiceError("ServerBusy");
  }

  /** Cuts every connection whose body has been waited for and is slow: for a server that closes. */
  cutSlowBodies(): void {
    for (const holding of this.#holdings) {
      if (holding.waitsFor === "body" && holding.isSlow) holding.cut();
    }
  }

  /** Measures how fast every connection is, twice a second, and cuts those below the minimum. */
  sweep(): void {
    this.#slowest = undefined;
    this.#returnMemory();
    for (const holding of this.#holdings) {
      if (!holding.measure()) continue;
      const { cutForRate } = this.#counts;
      this.#counts = { ...this.#counts, cutForRate: cutForRate + 1 };
      holding.cut();
    }
    this.#beginAnswers();
    this.#report();
    if (this.#holdings.size > 0 || this.#bytesPeak > 0 || this.#counts !== this.#reported) return;
    if (this.#collectIn > 0 || this.#waiting.length > 0) return;
    clearInterval(this.#timer);
    this.#timer = undefined;
  }

  /**
   * What was held for peers is garbage now, and V8 may not look for it for hours: it sees no need as long as little
   * is allocated. Some time after a burst it is collected here, which takes tens of milliseconds.
   */
  #returnMemory(): void {
    if (this.#collectIn > 0 && --this.#collectIn === 0) collectGarbage();
    this.#bytesPeak = Math.max(this.#bytesPeak, this.#bytes);
    if (this.#bytes > this.#bytesPeak / 2) return;
    if (this.#bytesPeak >= BURST_BYTES) this.#collectIn ||= COLLECT_SWEEPS;
    this.#bytesPeak = this.#bytes;
  }

  #begins(holding: Holding): boolean {
    if (!this.makeRoom(holding, this.#begunAnswerBytes + this.#leftForBodies)) return false;
    holding.expect(this.#begunAnswerBytes);
    return true;
  }

  #beginAnswers(): void {
    const left: WaitingAnswer[] = [];
    for (const each of this.#waiting) {
      const { holding, resolve } = each;
      const isTried = left.length < FAILURES_MAX;
      if (holding.isGone || (isTried && this.#begins(holding))) resolve();
      else left.push(each);
    }
    this.#waiting = left;
  }

  #report(): void {
    const [now, counts, before] = [this.#now(), this.#counts, this.#reported];
    if (counts === before || now - this.#reportedAt < REPORT_MS) return;
    this.#reportedAt = now;
    this.#reported = counts;
    this.#onReport({
      bytes: this.#bytes,
      cutForRoom: counts.cutForRoom - before.cutForRoom,
      cutForRate: counts.cutForRate - before.cutForRate,
      refused: counts.refused - before.refused,
    });
  }

  #fits(holding: Holding, bytes: number): boolean {
    if (this.#bytes + bytes > this.#bytesMax) return false;
    return holding.groups.every((group) => this.#groupFits(group, bytes));
  }

  #groupFits(group: string, bytes: number): boolean {
    return (this.#groups.get(group) ?? 0) + bytes <= this.#bytesMax * GROUP_SHARE;
  }

  #cutUntilFits(slowest: readonly Holding[], holding: Holding, bytes: number): boolean {
    for (const slow of slowest) {
      if (this.#fits(holding, bytes)) return true;
      if (slow === holding || slow.bytes === 0 || slow.waitsFor === undefined) continue;
      const isFull = this.#bytes + bytes > this.#bytesMax;
      const helps = (group: string) =>
        slow.groups.includes(group) && !this.#groupFits(group, bytes);
      if (!isFull && !holding.groups.some(helps)) continue;
      this.#counts = { ...this.#counts, cutForRoom: this.#counts.cutForRoom + 1 };
      slow.cut();
    }
    return this.#fits(holding, bytes);
  }
}

interface WaitingAnswer {
  readonly holding: Holding;
  readonly resolve: () => void;
}

/** Collects all garbage. Node.js offers that to a program only by a flag, which can be set at any time. */
function collectGarbage(): void {
  setFlagsFromString("--expose-gc");
  runInNewContext("gc")();
}

const NOTHING_YET = { cutForRoom: 0, cutForRate: 0, refused: 0 };

/** The memory that one connection makes this process hold, and how fast its client is. */
export class Holding {
  readonly #memory: PeerMemory;
  readonly #peer: PeerConnection;
  readonly #address: string;
  /** Names of its account and its address. */
  groups: readonly string[];
  #account: string;
  /** Of the request. */
  #requestBytes = 0;
  /** Of the answer. */
  #answerBytes = 0;
  #waitsFor: keyof typeof RATE_SECONDS | undefined;
  #moved = 0;
  /** Seconds for which its client was waited for, and what has moved in them; begins anew when it has moved enough. */
  #seconds = 0;
  #movedInSeconds = 0;
  /** For how many sweeps its client has been waited for. */
  sweeps = 0;
  /** Bytes per second, smoothed. */
  rate = 0;
  /** What is left of an answer that leaves in one piece, at the last look. */
  #left = 0;
  #lookLeft: (() => number) | undefined;

  constructor(memory: PeerMemory, peer: PeerConnection) {
    this.#memory = memory;
    this.#peer = peer;
    this.#address = `address ${network(peer.remoteAddress)}`;
    this.#account = peer.account;
    this.groups = [`account ${peer.account}`, this.#address];
  }

  get bytes(): number {
    return this.#requestBytes + this.#answerBytes;
  }

  get isGone(): boolean {
    return this.#peer.isGone;
  }

  get isActive(): boolean {
    return this.bytes > 0 || this.#waitsFor !== undefined;
  }

  /** What must come from the client for the memory to become free; undefined while the server is at work. */
  get waitsFor(): keyof typeof RATE_SECONDS | undefined {
    return this.#waitsFor;
  }

  set waitsFor(what: keyof typeof RATE_SECONDS | undefined) {
    const had = this.#waitsFor;
    if (what === had) return;
    this.#waitsFor = what;
    if (had === undefined || what === undefined) this.#memory.keep(this);
  }

  /** Whether it may be cut to make room. */
  get isSlow(): boolean {
    return this.sweeps >= PATIENCE_SWEEPS && this.rate < SLOW_BYTES_PER_SECOND;
  }

  /** So many bytes of the body have arrived, or of the answer have left. */
  moved(bytes: number): void {
    this.#moved += bytes;
  }

  /** Counts bytes held for the request until `release`. @returns false if there is no room: nothing is counted. */
  take(bytes: number): boolean {
    this.#follow();
    if (!this.#memory.makeRoom(this, bytes)) return false;
    this.#requestBytes += bytes;
    this.#memory.count(this, bytes);
    this.#memory.keep(this);
    return true;
  }

  /** The same. @throws ServiceError ServerBusy if there is no room. */
  reserve(bytes: number): void {
    if (!this.take(bytes)) throw this.refusal();
  }

  /** The answer to a request that finds no room. */
  refusal(): ServiceError {
    return this.#memory.refuse();
  }

  /** The request no longer holds memory. */
  release(): void {
    const bytes = this.#requestBytes;
    this.#requestBytes = 0;
    this.#memory.count(this, -bytes);
    this.#memory.keep(this);
  }

  /**
   * An answer of so many bytes waits for its client to read it, until `read`.
   * @param lookLeft how many of them are left to be read, for an answer that leaves in one piece
   */
  answer(bytes: number, lookLeft?: () => number): void {
    this.#follow();
    this.#memory.count(this, bytes - this.#answerBytes);
    this.#answerBytes = bytes;
    this.#lookLeft = lookLeft;
    this.#left = bytes;
    this.#waitsFor = "reader";
    this.#memory.keep(this);
    this.#memory.makeRoomForAnswer(this);
  }

  /** @internal Counts bytes of an answer that is about to be read from the store. */
  expect(bytes: number): void {
    this.#answerBytes = bytes;
    this.#memory.count(this, bytes);
    this.#memory.keep(this);
  }

  /** The answer has been read, or will not be. */
  read(): void {
    this.#memory.count(this, -this.#answerBytes);
    this.#answerBytes = 0;
    this.#lookLeft = undefined;
    this.#waitsFor = undefined;
    this.#memory.keep(this);
  }

  /**
   * The same parts, each counted as an answer until the next is requested. Begins when there is room: unlike a
   * body, whose sender may be slow, an answer whose client is slow is cut when the next one waits.
   */
  async *pouring(parts: AsyncIterable<Uint8Array>): AsyncGenerator<Uint8Array, void, undefined> {
    this.#follow();
    try {
      await this.#memory.beginAnswer(this);
      // Nothing is read for nobody.
      if (this.isGone) return;
      for await (const part of parts) {
        // Nobody waits for what was still being read for it.
        if (this.isGone) return;
        // A store reads the part behind it in the meantime.
        this.answer(2 * part.length);
        yield part;
        this.moved(part.length);
        this.waitsFor = undefined;
      }
    } finally {
      this.read();
    }
  }

  /** The connection is gone. */
  end(): void {
    this.release();
    this.read();
  }

  cut(): void {
    this.end();
    this.#peer.destroy();
  }

  /** At each sweep. @returns whether it stays below the minimum rate */
  measure(): boolean {
    const waitsFor = this.#waitsFor;
    if (waitsFor === undefined) {
      this.#moved = 0;
      this.#forget();
      this.sweeps = 0;
      return false;
    }
    if (this.#lookLeft) {
      const left = this.#lookLeft();
      this.#moved += Math.max(this.#left - left, 0);
      this.#left = left;
    }
    const now = this.#moved * SWEEPS_PER_SECOND;
    this.rate = this.sweeps++ === 0 ? now : (this.rate + now) / 2;
    this.#seconds += 1 / SWEEPS_PER_SECOND;
    this.#movedInSeconds += this.#moved;
    this.#moved = 0;
    if (this.#seconds < RATE_SECONDS[waitsFor]) return false;
    const isBelow = this.#movedInSeconds < this.#seconds * LIMITS.bytesPerSecondMin;
    this.#forget();
    return isBelow;
  }

  #forget(): void {
    this.#seconds = 0;
    this.#movedInSeconds = 0;
  }

  /** The account becomes known after the first bytes. */
  #follow(): void {
    const { account } = this.#peer;
    if (account === this.#account) return;
    this.#memory.count(this, -this.bytes);
    this.#account = account;
    this.groups = [`account ${account}`, this.#address];
    this.#memory.count(this, this.bytes);
  }
}

function bySpeed(one: Holding, other: Holding): number {
  return one.rate - other.rate || other.sweeps - one.sweeps;
}

/** The address, or of IPv6 the /64 network, which one client has whole. */
function network(address: string): string {
  if (!address.includes(":")) return address;
  const [front = "", back] = address.split("::");
  const groups = front === "" ? [] : front.split(":");
  const behind = back === undefined || back === "" ? [] : back.split(":");
  while (groups.length + behind.length < 8) groups.push("0");
  return [...groups, ...behind].slice(0, 4).join(":");
}

/** Of this machine, or of the container. */
function memoryBytes(): number {
  // Zero, or more than the machine has, where no limit is set.
  const limit = process.constrainedMemory();
  return limit > 0 ? Math.min(limit, totalmem()) : totalmem();
}
