import { readFileSync } from "node:fs";
import { type Message, parseTranscripts } from "./raw-exchange.ts";
import { BATCH_TYPE, changeset } from "./table-batch.ts";
import { hmac } from "./table-wire.ts";

/** A request in parts, so that each part can be damaged. */
export interface Plain {
  readonly verb: string;
  readonly target: string;
  readonly version: string;
  readonly headers: readonly (readonly [name: string, value: string])[];
  readonly body: string;
}

const KEY =
  "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw==";
const DATE = "Wed, 06 Jan 2021 01:01:30 GMT";

/** The recorded requests and a sample of every operation, each signed for the recorded time. */
export function corpus(): Plain[] {
  const file = new URL("table-exchanges.txt", import.meta.url);
  const recorded = parseTranscripts(readFileSync(file, "utf8")).map(({ request }) =>
    fromMessage(request),
  );
  const entity = "/People(PartitionKey='p',RowKey='r')";
  return [
    ...recorded,
    signed("GET", "/Tables"),
    signed("GET", "/Tables('People')"),
    signed("GET", "/People()?$filter=PartitionKey%20eq%20'p'&$top=5"),
    signed("POST", "/People", '{"PartitionKey":"p","RowKey":"r","a":1.5}'),
    signed("PUT", entity, '{"a":"\u00e9"}'),
    signed("MERGE", entity, '{"b":2}', [["If-Match", "*"]]),
    signed("PATCH", entity, '{"c":3}'),
    signed("POST", entity, '{"d":4}', [["X-HTTP-Method", "MERGE"]]),
    signed("GET", entity),
    signed("HEAD", entity),
    signed("GET", entity, "a body nobody asked for"),
    signed("DELETE", entity, "", [["If-Match", "*"]]),
    signed("DELETE", entity),
    signed(
      "POST",
      "/$batch",
      changeset([{ method: "POST", path: "/People", body: { PartitionKey: "q", RowKey: "1" } }]),
      [["Content-Type", BATCH_TYPE]],
    ),
    signed("GET", "/People?comp=acl"),
    signed("PUT", "/People?comp=acl", "<SignedIdentifiers />"),
    signed("GET", "/?restype=service&comp=properties"),
    signed("GET", "/?restype=service&comp=stats"),
    signed("GET", "/"),
    signed("GET", "/$metadata"),
    signed("GET", "/People/deep/er"),
    signed("GET", "/People(PartitionKey='a/b',RowKey='r')"),
    signed("GET", "/People?$filter=%zz"),
    signed("GET", "/People?timeout=x"),
    signed("OPTIONS", "/People", "", [["Origin", "http://a"]]),
    { verb: "GET", target: "/healthz", version: "HTTP/1.1", headers: [["Host", "h"]], body: "" },
    { verb: "GET", target: "/readyz", version: "HTTP/1.1", headers: [["Host", "h"]], body: "" },
    {
      verb: "GET",
      target: "/nobody/Tables",
      version: "HTTP/1.1",
      headers: [["Host", "h"]],
      body: "",
    },
  ];
}

/** The bytes of a request, with its body's length unless its headers say otherwise. */
export function print({ verb, target, version, headers, body }: Plain): string {
  const lines = headers.map(([name, value]) => `${name}: ${value}\r\n`).join("");
  return `${verb} ${target} ${version}\r\n${lines}\r\n${body}`;
}

export function signed(
  verb: string,
  path: string,
  text = "",
  extra: readonly (readonly [string, string])[] = [],
): Plain {
  const target = `/devstoreaccount1${path}`;
  const body = Buffer.from(text, "utf8").toString("latin1");
  const [rawPath, query = ""] = target.split("?");
  const comp = /(?:^|&)comp=([^&]*)/.exec(query);
  const resource = `/devstoreaccount1${rawPath}${comp ? `?comp=${comp[1]}` : ""}`;
  return {
    verb,
    target,
    version: "HTTP/1.1",
    headers: [
      ["Host", "127.0.0.1:10002"],
      ["x-ms-version", "2019-02-02"],
      ["x-ms-date", DATE],
      ["Accept", "application/json;odata=nometadata"],
      ["Authorization", `SharedKeyLite devstoreaccount1:${hmac(KEY, `${DATE}\n${resource}`)}`],
      ...extra,
      ...(body ? ([["Content-Length", String(body.length)]] as const) : []),
    ],
    body,
  };
}

function fromMessage({ line, headers, body: text }: Message): Plain {
  const first = line.indexOf(" ");
  const last = line.lastIndexOf(" ");
  const body = Buffer.from(text, "utf8").toString("latin1");
  return {
    verb: line.slice(0, first),
    target: line.slice(first + 1, last),
    version: line.slice(last + 1),
    headers: headers.map(([name, value]) =>
      name.toLowerCase() === "content-length" ? [name, String(body.length)] : [name, value],
    ),
    body,
  };
}
