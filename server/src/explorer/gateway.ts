import { ServiceError } from "@rowhouse/protocol/errors";
import {
  type SignableRequest,
  sharedKeyLiteStrings,
  tableSharedKeyLiteString,
} from "@rowhouse/protocol/shared-key";
import { HmacKey } from "../auth/hmac.ts";
import type { Handle } from "../http/lane-limits.ts";
import { jsonAnswer, type PageRequest } from "../http/pages.ts";
import { HeaderList, WholeBody } from "../http/raw-request.ts";
import { copyOf, isLent } from "../wire/body-bytes.ts";
import type { WireResponse } from "../wire/operation.ts";
import { Query } from "../wire/query.ts";
import type { ServiceName } from "../wire/service-name.ts";
import type { Ask } from "./bulk.ts";
import { cutCells } from "./cut-cells.ts";
import type { Session } from "./session-token.ts";

/** What the page may say to the service. Credentials and addresses are the gateway's to say. */
const PASSED_ON = new Set([
  ...["accept", "content-length", "content-type", "dataserviceversion", "if-match", "prefer"],
  ...["maxdataserviceversion", "transfer-encoding", "x-http-method", "x-ms-client-request-id"],
  ...["x-rowhouse-read-max", "x-ms-range", "range"],
]);
const VERSION = "2019-02-02";
const CELL_MAX = "x-rowhouse-cell-max";
const NO_QUERY = new URLSearchParams();

/**
 * Sends a request of the explorer through a service's own pipeline, as the client that the session stands for
 * would: signed with the account's key, or with the session's SAS. Everything else, from validation to errors, is the
 * service's; there is no second way to the data.
 * @param path below `/`: the account, then what the service reads, as sent
 * @param now milliseconds since 1970
 */
export async function passOn(
  { raw }: PageRequest,
  {
    path,
    session,
    now,
    handle,
    service = "table",
  }: {
    path: string;
    session: Session;
    now: number;
    handle: Handle;
    service?: ServiceName;
  },
): Promise<WireResponse> {
  const { account, key, sas } = session;
  // The account's name is letters and digits, so no escape can spell it otherwise.
  if (path !== account.name && !path.startsWith(`${account.name}/`))
    return refusal(403, "OtherAccount", `This session is for the account ${account.name}.`);
  const mark = raw.target.indexOf("?");
  const sent = mark < 0 ? "" : raw.target.slice(mark + 1);
  const query = [sent, sas].filter(Boolean).join("&");
  const target = query === "" ? `/${path}` : `/${path}?${query}`;
  const list = ["Host", raw.headers.get("host") ?? "", "x-ms-version", VERSION];
  for (let i = 0; i < raw.headers.raw.length; i += 2)
    if (PASSED_ON.has(raw.headers.raw[i]!.toLowerCase()))
      list.push(...raw.headers.raw.slice(i, i + 2));
  if (key) {
    list.push("x-ms-date", new Date(now).toUTCString());
    const { verb } = raw;
    const headers = new HeaderList(list);
    const header = (name: string) => headers.get(name);
    const head = { verb, rawPath: `/${path}`, query: new Query(query), rawHeaders: list, header };
    try {
      const signature = new HmacKey(key).sign(stringToSign(service, head, account.name));
      list.push("Authorization", `SharedKeyLite ${account.name}:${signature}`);
    } catch (error) {
      // A query that cannot be decoded: the service says so, to a caller that it does not know.
      if (!(error instanceof ServiceError)) throw error;
    }
  }
  const answer = await handle({ ...raw, target, headers: new HeaderList(list) });
  const headers = withoutCors(answer.headers);
  // What somebody stored is data: nothing that a browser would show, whatever it was stored as.
  if (service === "blob") headers.push("Content-Disposition", "attachment");
  const lengthMax = Number(raw.headers.get(CELL_MAX) ?? 0);
  if (answer.status !== 200 || !(lengthMax > 0)) return { ...answer, headers };
  return { ...answer, headers, body: cutCells(bytesOf(answer.body), lengthMax) };
}

/** Asks the Table service for what the explorer itself needs to know, in the name of a session. */
export function askerFor(
  { raw }: PageRequest,
  { session, now, handle }: { session: Session; now: () => number; handle: Handle },
): Ask {
  return async ({ verb, path: below, query, headers, body = "" }) => {
    const path = `${session.account.name}/${below}`;
    const bytes = Buffer.from(body);
    const length = bytes.length > 0 ? ["Content-Length", String(bytes.length)] : [];
    const list = ["Host", raw.headers.get("host") ?? "", ...headers, ...length];
    const target = query ? `/${path}?${query}` : `/${path}`;
    const sent = { headers: new HeaderList(list), body: new WholeBody(bytes) };
    const request = { raw: { ...raw, verb, target, ...sent }, rest: "", query: NO_QUERY };
    const answer = await passOn(request, { path, session, now: now(), handle });
    return { answer, text: textOf(answer.body) };
  };
}

/** An answer of the explorer itself, in the shape of the Table service's errors. */
export function refusal(status: number, code: string, message: string): WireResponse {
  return jsonAnswer(status, {
    "odata.error": { code, message: { lang: "en-US", value: message } },
  });
}

/** In the Lite scheme, of which the services know two forms. */
function stringToSign(service: ServiceName, head: SignableRequest, account: string): string {
  if (service === "table") return tableSharedKeyLiteString(head, account);
  const [first] = sharedKeyLiteStrings(head, account);
  return first!;
}

function textOf(body: WireResponse["body"]): string {
  return typeof body === "string" ? body : bytesOf(body).toString("utf8");
}

/** Bodies of the Table service are whole. */
function bytesOf(body: WireResponse["body"]): Buffer {
  if (isLent(body)) return viewOf(copyOf(body));
  if (body instanceof Uint8Array) return viewOf(body);
  return Buffer.from(typeof body === "string" ? body : "");
}

function viewOf({ buffer, byteOffset, byteLength }: Uint8Array): Buffer {
  return Buffer.from(buffer, byteOffset, byteLength);
}

/** No page of another origin may read an answer here, whatever the service's rules allow there. */
function withoutCors(headers: readonly string[]): string[] {
  return headers.filter((_, i) => !/^(access-control-|vary$)/i.test(headers[i - (i % 2)]!));
}
