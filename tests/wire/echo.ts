import type { Handle } from "@rowhouse/server/http/lane-limits";
import type { RawRequest } from "@rowhouse/server/http/raw-request";
import type { WireResponse } from "@rowhouse/server/wire/operation";

/** Answers each request with its target and body, once the body is read and the gate is open. */
export class Echo {
  readonly seen: string[] = [];
  readonly aborted: string[] = [];
  /** Replaces the whole answer, if set. */
  answer: (() => WireResponse) | undefined;
  gate: Promise<void> | undefined;
  /** Replaces the body of the answer. */
  content: Uint8Array | undefined;

  readonly handle: Handle = (request) => {
    this.seen.push(request.target);
    if (this.answer) return this.answer();
    const body = request.body.read(1024);
    if (!(body instanceof Promise) && !this.gate) return this.#answer(request, body);
    return this.#later(request, body);
  };

  async #later(request: RawRequest, body: ReturnType<RawRequest["body"]["read"]>) {
    try {
      const bytes = await body;
      await this.gate;
      return this.#answer(request, bytes);
    } catch (error) {
      this.aborted.push(request.target);
      throw error;
    }
  }

  #answer({ target }: RawRequest, body: Uint8Array | undefined) {
    const text = this.content ?? `${target} ${body ? Buffer.from(body).toString() : "too large"}`;
    return { status: 200, headers: [], body: text };
  }
}
