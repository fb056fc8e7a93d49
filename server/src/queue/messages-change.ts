import type { AtomicWrite, Check, Key, Put } from "../engine/engine.ts";
import { equalBytes } from "../engine/key-codec.ts";
import { type ReadyPlace, readyKey, recordKey } from "./message-keys.ts";
import { encodeMessage, type Message } from "./message-record.ts";

const NOTHING = new Uint8Array(0);

/** The commit that puts a new message. Its id is random, so it needs no check. */
export function writeOfNewMessage(
  partition: Uint8Array,
  version: number,
  message: Message,
): AtomicWrite {
  return {
    version,
    checks: [],
    puts: [
      { key: recordKey(partition, message), value: encodeMessage(message) },
      { key: readyKey(partition, message), value: NOTHING },
    ],
    deletes: [],
  };
}

/** Changes to stored messages, in one commit that succeeds only if none of them was changed in the meantime. */
export class MessagesChange {
  readonly #partition: Uint8Array;
  readonly #version: number;
  readonly #checks: Check[] = [];
  readonly #records: Put[] = [];
  readonly #ready: Put[] = [];
  readonly #deletes: Key[] = [];

  constructor(partition: Uint8Array, version: number) {
    this.#partition = partition;
    this.#version = version;
  }

  /** @param expected the version of the record from which `before` was read */
  replace(before: Message, expected: number, after: Message): void {
    const key = recordKey(this.#partition, after);
    this.#checks.push({ key, expected });
    this.#records.push({ key, value: encodeMessage(after) });
    const from = readyKey(this.#partition, before);
    const to = readyKey(this.#partition, after);
    if (equalBytes(from.sort, to.sort)) return;
    this.#deletes.push(from);
    this.#ready.push({ key: to, value: NOTHING });
  }

  delete(place: ReadyPlace, expected: number): void {
    const key = recordKey(this.#partition, place);
    this.#checks.push({ key, expected });
    this.#deletes.push(key, readyKey(this.#partition, place));
  }

  /** Records come first, in the order of their checks: an engine then reads each of them once. */
  toWrite(): AtomicWrite {
    return {
      version: this.#version,
      checks: this.#checks,
      puts: [...this.#records, ...this.#ready],
      deletes: this.#deletes,
    };
  }
}
