import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { cpSync, mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";

/** Disks write this many bytes whole or not at all. */
const SECTOR_BYTES = 512;
const TRACED =
  "openat,open,creat,close,dup,dup2,dup3,lseek,write,writev,pwrite64,pwritev,pwritev2,ftruncate,fallocate,copy_file_range," +
  "sendfile,fdatasync,fsync,sync_file_range,msync,rename,renameat,renameat2,link,linkat,unlink,unlinkat,mkdir,mkdirat";

export const canRecord = spawnSync("strace", ["-o", "/dev/null", "true"]).status === 0;

/** Times are lines of the record: a call begins at one and ends at it or a later one. */
interface Call {
  readonly name: string;
  readonly args: string;
  readonly begunAt: number;
  endedAt: number;
  result: string;
}

/** Changes a file; on disk once a flush of it that began later has ended, or at its own end. */
interface Write {
  readonly begunAt: number;
  readonly endedAt: number;
  readonly flushesItself: boolean;
  readonly at: number;
  /** Undefined: the file ends at `at`. */
  readonly bytes: Buffer | undefined;
}

interface File {
  /** Its name in the folder when the record began. */
  readonly original: string | undefined;
  readonly writes: Write[];
  readonly flushes: Call[];
}

/** Changes names; on disk once a flush of their folder that began later has ended. */
interface Naming {
  readonly begunAt: number;
  readonly endedAt: number;
  readonly folder: string;
  readonly sets: readonly (readonly [string, File | undefined])[];
}

/** Of what was not flushed, a loss of power keeps nothing, everything (as a kill does), or some sectors and names. */
export type Kept = "nothing" | "everything" | (() => number);

/**
 * What a process did to the files of a folder, call by call, as `strace` saw it. It lays out what a disk holds when
 * power is lost at any time of it.
 */
export class DiskRecord {
  /** What the process printed, and when each piece was out. */
  readonly printed: { readonly text: string; readonly at: number }[] = [];
  /** The times at which a call on the folder began or ended. */
  readonly times: readonly number[];
  readonly #before: string;
  readonly #path: string;
  readonly #names = new Map<string, File | undefined>();
  readonly #originals = new Map<string, File>();
  readonly #namings: Naming[] = [];
  readonly #folderFlushes: { readonly folder: string; readonly call: Call }[] = [];

  private constructor(calls: readonly Call[], path: string, before: string) {
    this.#path = path;
    this.#before = before;
    const times = new Set<number>();
    const open = new Map<
      string,
      { path: string; file: File | undefined; at: number; syncs: boolean }
    >();
    for (const call of calls) {
      if (call.result.startsWith("-")) continue;
      const [fd = ""] = call.args.split(",");
      const touched = open.get(fd);
      const isOurs = this.#read(call, open);
      if (isOurs || touched) times.add(call.begunAt).add(call.endedAt);
    }
    this.times = [...times].sort((a, b) => a - b);
  }

  /** Runs Node with these arguments and records what it does to the folder at `path`. */
  static of(nodeArguments: readonly string[], path: string, scratch: string): DiskRecord {
    const before = join(scratch, "before");
    cpSync(path, before, { recursive: true });
    const trace = join(scratch, "trace");
    const { status, stderr } = spawnSync(
      "strace",
      [
        ...["-f", "-qq", "-xx", "-s", "4000000", "--seccomp-bpf", "-e", `trace=${TRACED}`],
        ...["-o", trace, process.execPath, ...nodeArguments],
      ],
      { encoding: "utf8" },
    );
    assert.equal(status, 0, stderr);
    const text = readFileSync(trace, "latin1");
    rmSync(trace);
    return DiskRecord.read(text, path, before);
  }

  /** @param before a copy of the folder at `path` as it was when the record began */
  static read(trace: string, path: string, before: string): DiskRecord {
    return new DiskRecord(parseTrace(trace), path, before);
  }

  /** Lays out at `target` what is on disk if power is lost at `time`. */
  layOut(target: string, time: number, kept: Kept): void {
    const survives = (isFlushed: boolean) => {
      if (isFlushed || kept === "everything") return true;
      return kept === "nothing" ? false : kept() < 0.5;
    };
    cpSync(this.#before, target, { recursive: true });
    const names = new Map<string, File | undefined>(this.#originals);
    for (const naming of this.#namings) {
      if (naming.begunAt > time) continue;
      const isFlushed = this.#folderFlushes.some(
        ({ folder, call }) =>
          folder === naming.folder && call.begunAt > naming.endedAt && call.endedAt <= time,
      );
      if (survives(isFlushed)) for (const [name, file] of naming.sets) names.set(name, file);
    }
    for (const [name, file] of names) {
      const path = join(target, name);
      rmSync(path, { force: true });
      if (file === undefined) continue;
      mkdirSync(dirname(path), { recursive: true });
      writeFileSync(path, this.#contentOf(file, time, survives));
    }
  }

  #contentOf(file: File, time: number, survives: (isFlushed: boolean) => boolean): Buffer {
    let content: Buffer =
      file.original === undefined
        ? Buffer.alloc(0)
        : readFileSync(join(this.#before, file.original));
    for (const { begunAt, endedAt, flushesItself, at, bytes } of file.writes) {
      if (begunAt > time) continue;
      const isFlushed =
        (flushesItself && endedAt <= time) ||
        file.flushes.some((flush) => flush.begunAt > endedAt && flush.endedAt <= time);
      if (bytes === undefined) {
        if (survives(isFlushed)) content = resized(content, at);
        continue;
      }
      for (let from = 0; from < bytes.length; ) {
        const to = Math.min(bytes.length, from + SECTOR_BYTES - ((at + from) % SECTOR_BYTES));
        if (survives(isFlushed)) {
          if (content.length < at + to) content = resized(content, at + to);
          bytes.copy(content, at + from, from, to);
        }
        from = to;
      }
    }
    return content;
  }

  /** Returns whether the call concerns the folder. */
  #read(
    call: Call,
    open: Map<string, { path: string; file: File | undefined; at: number; syncs: boolean }>,
  ): boolean {
    const { name, args, result, begunAt, endedAt } = call;
    const texts = [...args.matchAll(/"((?:\\x[0-9a-f]{2})*)"(\.*)/g)].map(([, hex = "", rest]) => {
      assert.equal(rest, "", "strace cut a text.");
      return Buffer.from(hex.replaceAll("\\x", ""), "hex");
    });
    const [fd = ""] = args.split(",");
    const entry = open.get(fd);
    const numbers = args.slice(args.lastIndexOf('"') + 1).match(/-?\d+/g) ?? [];
    const write = (at: number, bytes: Buffer | undefined) => {
      assert.ok(entry?.file);
      entry.file.writes.push({ begunAt, endedAt, flushesItself: entry.syncs, at, bytes });
    };
    switch (name) {
      case "openat":
      case "open": {
        const path = this.#inFolder(texts[0]!.toString());
        if (path === undefined) {
          open.delete(result);
          return false;
        }
        const isFolder = args.includes("O_DIRECTORY") || !this.#isFile(path, args);
        let file = isFolder ? undefined : this.#fileAt(path);
        if (!isFolder && file === undefined) {
          file = { original: undefined, writes: [], flushes: [] };
          this.#name(call, [[path, file]]);
        }
        const syncs = /O_D?SYNC/.test(args);
        open.set(result, { path, file, at: 0, syncs });
        assert.ok(!args.includes("O_APPEND"), "Appending is not modelled.");
        if (args.includes("O_TRUNC")) {
          file!.writes.push({ begunAt, endedAt, flushesItself: false, at: 0, bytes: undefined });
        }
        return true;
      }
      case "close":
        open.delete(fd);
        return false;
      case "dup":
      case "dup2":
      case "dup3":
        if (entry) open.set(result, entry);
        return false;
      case "lseek":
        if (entry) entry.at = Number(result);
        return false;
      case "write":
      case "writev": {
        const bytes = Buffer.concat(texts);
        if (fd === "1") this.printed.push({ text: bytes.toString(), at: endedAt });
        if (!entry?.file) return false;
        write(entry.at, bytes.subarray(0, Number(result)));
        entry.at += Number(result);
        return true;
      }
      case "pwrite64":
      case "pwritev":
      case "pwritev2":
        if (!entry?.file) return false;
        write(
          Number(numbers.at(name === "pwritev2" ? -2 : -1)),
          Buffer.concat(texts).subarray(0, Number(result)),
        );
        return true;
      case "ftruncate":
        if (!entry?.file) return false;
        write(Number(args.split(",")[1]), undefined);
        return true;
      case "fsync":
      case "fdatasync":
        if (entry === undefined) return false;
        if (entry.file) entry.file.flushes.push(call);
        else this.#folderFlushes.push({ folder: entry.path, call });
        return true;
      case "unlink":
      case "unlinkat":
      case "rename":
      case "renameat":
      case "renameat2":
      case "link":
      case "linkat": {
        const [from, to] = texts.map((each) => this.#inFolder(each.toString()));
        if (from === undefined) return false;
        const file = this.#fileAt(from);
        if (name.startsWith("unlink")) this.#name(call, [[from, undefined]]);
        else if (name.startsWith("link")) this.#name(call, [[to!, file]]);
        else
          this.#name(call, [
            [from, undefined],
            [to!, file],
          ]);
        return true;
      }
      case "mkdir":
      case "mkdirat":
        return false;
      default:
        assert.ok(entry === undefined, `${name} is not modelled.`);
        return false;
    }
  }

  #inFolder(path: string): string | undefined {
    if (path === this.#path) return "";
    if (!path.startsWith(`${this.#path}/`)) return undefined;
    const inside = path.slice(this.#path.length + 1);
    // Shared memory, which nothing reads after the power was lost.
    return inside === "lock.mdb" ? undefined : inside;
  }

  #isFile(path: string, flags: string): boolean {
    return flags.includes("O_CREAT") || this.#fileAt(path) !== undefined;
  }

  #fileAt(path: string): File | undefined {
    if (this.#names.has(path)) return this.#names.get(path);
    try {
      readFileSync(join(this.#before, path));
    } catch {
      return undefined;
    }
    const file = { original: path, writes: [], flushes: [] };
    this.#names.set(path, file);
    this.#originals.set(path, file);
    return file;
  }

  #name({ begunAt, endedAt }: Call, sets: readonly (readonly [string, File | undefined])[]): void {
    const folder = dirname(sets.at(-1)![0]);
    this.#namings.push({ begunAt, endedAt, folder: folder === "." ? "" : folder, sets });
    for (const [name, file] of sets) this.#names.set(name, file);
  }
}

function resized(content: Buffer, length: number): Buffer {
  if (length <= content.length) return content.subarray(0, length);
  return Buffer.concat([content, Buffer.alloc(length - content.length)]);
}

/**
 * The calls of all threads, in the order in which they take effect. One thread may begin to open a file before another
 * one closes its own, and be given that one's number: a number is free from the begin of a close, and taken at the end
 * of an open.
 */
function parseTrace(trace: string): Call[] {
  const calls: Call[] = [];
  const unfinished = new Map<string, { name: string; args: string; call: Call }>();
  for (const [at, line] of trace.split("\n").entries()) {
    const [, thread = "", text = ""] = /^(\d+) +(.*)$/s.exec(line) ?? [];
    const resumed = /^<\.\.\. (\w+) resumed>/.exec(text);
    const before = resumed ? unfinished.get(thread) : undefined;
    const [, name = "", rest = ""] = before
      ? ["", before.name, before.args + text.slice(resumed![0].length)]
      : (/^(\w+)\((.*)$/s.exec(text) ?? []);
    if (name === "") continue;
    if (text.endsWith("<unfinished ...>")) {
      const args = rest.slice(0, -"<unfinished ...>".length);
      const call = { name, args, begunAt: at, endedAt: Number.POSITIVE_INFINITY, result: "" };
      calls.push(call);
      unfinished.set(thread, { name, args, call });
      continue;
    }
    const end = rest.lastIndexOf(") ");
    const args = rest.slice(0, end).trim();
    const result = /= (-?\d+)/.exec(rest.slice(end))?.[1] ?? "-1";
    if (before) Object.assign(before.call, { args, result, endedAt: at });
    else calls.push({ name, args, begunAt: at, endedAt: at, result });
    unfinished.delete(thread);
  }
  const effectAt = ({ name, begunAt, endedAt }: Call) =>
    TAKES_NUMBER.has(name) ? endedAt : begunAt;
  return calls.sort((a, b) => effectAt(a) - effectAt(b));
}

const TAKES_NUMBER: ReadonlySet<string> = new Set([
  "openat",
  "open",
  "creat",
  "dup",
  "dup2",
  "dup3",
]);
