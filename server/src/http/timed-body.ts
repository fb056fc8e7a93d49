import { ServiceError } from "@rowhouse/protocol/errors";
import type { Awaitable } from "../awaitable.ts";
import { whenReady } from "../awaitable.ts";
import type { Clock } from "../clock.ts";
import type { BodySource } from "../wire/body-source.ts";

/** When the client stops waiting for its request, as `timeout` says. */
export interface Deadline {
  readonly clock: Clock;
  readonly latestAt: number;
}

/** A client that gave up may have acted on that already, so the server does nothing after the deadline. */
export function checkDeadline({ clock, latestAt }: Deadline): void {
  if (clock.now() > latestAt) throw new ServiceError("OperationTimedOut");
}

/** A body that must arrive by the deadline. */
export class TimedBody implements BodySource {
  readonly #source: BodySource;
  readonly #deadline: Deadline;

  constructor(source: BodySource, deadline: Deadline) {
    this.#source = source;
    this.#deadline = deadline;
  }

  get bytes(): number | undefined {
    return this.#source.bytes;
  }

  read(bytesMax: number): Awaitable<Uint8Array | undefined> {
    return this.#inTime(this.#source.read(bytesMax));
  }

  fill(memory: Uint8Array): Awaitable<number> {
    return this.#inTime(this.#source.fill(memory));
  }

  reserve(bytes: number): void {
    this.#source.reserve(bytes);
  }

  #inTime<T>(came: Awaitable<T>): Awaitable<T> {
    return whenReady(came, (value) => {
      checkDeadline(this.#deadline);
      return value;
    });
  }
}
