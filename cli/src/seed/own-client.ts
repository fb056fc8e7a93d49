import { createHmac } from "node:crypto";
import { accountSasString, parseSas } from "@rowhouse/protocol/sas";
import { HeaderList, WholeBody } from "@rowhouse/server/http/raw-request";
import type { RunningServer } from "@rowhouse/server/server";
import type { Account } from "@rowhouse/server/wire/account";
import type { ServiceName } from "@rowhouse/server/wire/service-name";

const PERMISSIONS = [
  ["sv", "2019-12-12"],
  ["ss", "btq"],
  ["srt", "sco"],
  ["sp", "rwdlacup"],
  ["se", "2999-01-01T00:00:00Z"],
] as const;

/** What a client sends, to one service of an account. */
export interface OwnRequest {
  readonly service: ServiceName;
  readonly verb: "POST" | "PUT";
  /** Below the account, percent-encoded, with the query. */
  readonly path: string;
  readonly headers?: readonly string[];
  readonly body?: Uint8Array | string;
}

/**
 * Sends requests to the services of this process, without a connection. They pass every check that a client's would,
 * so whatever is written this way could have been written by a client.
 */
export class OwnClient {
  readonly #handles: RunningServer["handles"];
  readonly #account: Account;
  readonly #signature: string;

  constructor(handles: RunningServer["handles"], account: Account) {
    this.#handles = handles;
    this.#account = account;
    const text = accountSasString(account.name, parseSas(PERMISSIONS));
    const sig = createHmac("sha256", account.keys[0]!).update(text, "utf8").digest("base64");
    this.#signature = new URLSearchParams({ ...Object.fromEntries(PERMISSIONS), sig }).toString();
  }

  /** @throws Error with the service's answer unless it is a success or, with `exists`, says so */
  async send(request: OwnRequest, { exists = false } = {}): Promise<void> {
    const { service, verb, path, headers = [], body = "" } = request;
    const handle = this.#handles.get(service);
    if (!handle) throw new Error(`the ${service} service is not started`);
    const bytes = typeof body === "string" ? Buffer.from(body) : body;
    const mark = path.includes("?") ? "&" : "?";
    const { status, body: answer } = await handle({
      verb,
      target: `/${this.#account.name}${path}${mark}${this.#signature}`,
      headers: new HeaderList([
        ...["Host", "127.0.0.1", "Content-Length", String(bytes.length)],
        ...["x-ms-version", "2019-12-12", "Accept", "application/json;odata=nometadata"],
        ...headers,
      ]),
      secure: false,
      remoteAddress: "127.0.0.1",
      body: new WholeBody(bytes),
    });
    if (status < 300 || (exists && status === 409)) return;
    throw new Error(`the ${service} service answered ${status}: ${textOf(answer)}`);
  }
}

/** Errors have short bodies, which are here whole. */
function textOf(body: unknown): string {
  const text =
    typeof body === "string"
      ? body
      : body instanceof Uint8Array
        ? Buffer.from(body).toString()
        : "";
  const [, message = text] =
    /"value":"((?:[^"\\]|\\.)*)"/.exec(text) ?? /<Message>([^<]*)/.exec(text) ?? [];
  return message.split("\\n")[0]!.split("\n")[0]!;
}
