import type { BatchPart } from "@rowhouse/protocol/batch-mime";
import { ServiceError } from "@rowhouse/protocol/errors";
import type { Identity } from "../wire/identity.ts";
import type { Location, WireRequest } from "../wire/operation.ts";
import { Query } from "../wire/query.ts";
import { locateBlob } from "./locate.ts";

const NO_BODY = new Uint8Array(0);

/**
 * A part of a batch as a request: with its own method, address, headers and credentials, and everything else from
 * the enclosing request.
 */
export class BatchedRequest implements WireRequest {
  readonly #outer: WireRequest;
  readonly #part: BatchPart;
  readonly rawPath: string;
  readonly query: Query;
  readonly rawHeaders: readonly string[];
  readonly body = NO_BODY;
  readonly bodySource = undefined;
  readonly secondary = false;
  identity: Identity = { kind: "anonymous" };
  #location: Location | undefined;

  constructor(outer: WireRequest, part: BatchPart) {
    this.#outer = outer;
    this.#part = part;
    const url = part.url.replace(/^https?:\/\/[^/]*/i, "");
    const mark = url.indexOf("?");
    this.rawPath = mark < 0 ? url : url.slice(0, mark);
    this.query = new Query(mark < 0 ? "" : url.slice(mark + 1));
    this.rawHeaders = [...part.headers].flat();
  }

  /**
   * A batch of a container has no parts elsewhere.
   * @throws ServiceError InvalidInput, and InvalidUri for an address that names nothing
   */
  checkPlace(): void {
    const { resource, name } = this.#outer.location;
    if (resource === "container" && this.location.name !== name) {
      throw new ServiceError("InvalidInput");
    }
  }

  /** Read on demand, so that an invalid address is the refusal of its part. */
  get location(): Location {
    this.#location ??= locateBlob(this.#servicePath(), this.query);
    return this.#location;
  }

  #servicePath(): string {
    const { baseUrl } = this.#outer;
    const segment = baseUrl.slice(`${baseUrl}/`.indexOf("/", "https://".length));
    if (segment === "") return this.rawPath;
    if (!this.rawPath.startsWith(`${segment}/`)) throw new ServiceError("InvalidUri");
    return this.rawPath.slice(segment.length);
  }

  header(name: string): string | undefined {
    return this.#part.headers.get(name);
  }

  get verb() {
    return this.#part.method;
  }

  get method() {
    return this.#part.method;
  }

  get baseUrl() {
    return this.#outer.baseUrl;
  }

  get account() {
    return this.#outer.account;
  }

  get secure() {
    return this.#outer.secure;
  }

  get remoteAddress() {
    return this.#outer.remoteAddress;
  }

  get requestId() {
    return this.#outer.requestId;
  }

  get arrivedAt() {
    return this.#outer.arrivedAt;
  }

  get version() {
    return this.#outer.version;
  }
}
