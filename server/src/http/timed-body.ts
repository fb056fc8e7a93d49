import { ServiceError } from "@rowhouse/protocol/errors";
import type { Awaitable } from "../awaitable.ts";
import { whenReady } from "../awaitable.ts";
import type { Clock } from "../clock.ts";
import type { BodySource } from "./raw-request.ts";

/** When what a request asks for is of no use to its client any more, as its `timeout` says. */
export interface Deadline {
  readonly clock: Clock;
  readonly latestAt: number;
}

/** Whoever gave up may have done otherwise meanwhile: what comes later is not done. */
export function checkDeadline({ clock, latestAt }: Deadline): void {
  if (clock.now() > latestAt) throw new ServiceError("OperationTimedOut");
}

/** A body that must be there in time. */
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

  #inTime<T>(came: Awaitable<T>): Awaitable<T> {
    return whenReady(came, (value) => {
      checkDeadline(this.#deadline);
      return value;
    });
  }
}
