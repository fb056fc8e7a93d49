import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { describe, it } from "node:test";
import { parseAccounts } from "@rowhouse/server/auth/account-settings";
import type { Handle } from "@rowhouse/server/http/lane-limits";
import { openServices } from "@rowhouse/server/server";
import { openTestEngine } from "../support/test-engine.ts";
import { type Exchange, inject, type Message, parseTranscripts } from "./raw-exchange.ts";

const transcripts = readFileSync(new URL("./table-exchanges.txt", import.meta.url), "utf8");
const exchanges = new Map(parseTranscripts(transcripts).map((each) => [each.number, each]));

/** The instant that every transcript is signed for. */
const clock = { now: () => Date.parse("2021-01-06T01:01:30Z") };

/** The exchanges, or requests like them, that create the state each exchange starts from. */
const BEFORE: Record<number, (request: Send) => Promise<void>> = {
  3: create("People"),
  5: create("beta", "people", "alpha"),
  7: create("People"),
  8: create("People"),
  9: after(7),
  10: create("People"),
  11: create("People"),
  12: after(7),
  13: after(7),
  14: create("People"),
  15: async (send) => {
    await after(7)(send);
    await send.insert(
      `{"PartitionKey":"p1","RowKey":"r2","age":"40","age@odata.type":"Edm.Int64"}`,
    );
  },
  16: create("People"),
  17: after(7),
  18: after(7),
  19: create("People"),
  20: after(7),
  21: async (send) => {
    await create("People")(send);
    await send.insert(`{"PartitionKey":"p","RowKey":"2"}`);
  },
  22: async (send) => {
    await create("People")(send);
    await send.insert(`{"PartitionKey":"p","RowKey":"1"}`);
  },
  23: create("People"),
  24: create("People"),
  25: create("People"),
  26: async (send) => {
    await create("People")(send);
    await send.exchange(25);
  },
  28: create("People"),
  30: (send) => send.allowOrigin("http://www.contoso.com", "PUT"),
  31: create("People"),
};

describe("The Table service answers as recorded:", () => {
  for (const exchange of exchanges.values()) {
    it(`${exchange.number} ${exchange.title}`, async () => {
      const services = await openServices({
        accounts: parseAccounts(undefined),
        engine: await openTestEngine({ clock }),
        services: ["table"],
        clock,
      });
      const handle = services.handles.get("table")!;
      await BEFORE[exchange.number]?.(new Send(handle));
      // One token is valid for HTTPS only; being told that the connection is TLS is enough for it.
      const answer = await inject(handle, exchange.request, exchange.number === 28);
      check(answer, exchange);
      await services.close();
    });
  }
});

function check(answer: Message & { status: number }, { response }: Exchange): void {
  assert.equal(answer.status, Number(response.line.split(" ")[1]), answer.body);
  const found = new Map(answer.headers.map(([name, value]) => [name.toLowerCase(), value]));
  for (const [name, value] of response.headers) {
    const key = name.toLowerCase();
    if (FRAMING.has(key)) continue;
    assert.equal(generalised(found.get(key) ?? "(absent)"), generalised(value), name);
  }
  const expected = new Set(response.headers.map(([name]) => name.toLowerCase()));
  for (const name of found.keys()) {
    assert.ok(expected.has(name) || OURS.has(name), `Header ${name} is not in the recording.`);
  }
  assert.equal(
    generalised(answer.body),
    generalised(response.body.trimEnd()).replace(
      /--$/,
      answer.body.endsWith("\r\n") ? "--\r\n" : "--",
    ),
  );
}

/** Framing is up to the transport; the product token is ours. */
const FRAMING = new Set(["transfer-encoding", "content-length", "server"]);
/** Sent on more answers than recorded; COMPATIBILITY.md lists them. */
const OURS = new Set([
  "content-length",
  "server",
  "x-ms-error-code",
  "x-rowhouse-plan",
  "x-rowhouse-cost",
  "x-ms-request-id",
  "cache-control",
]);

/** Replaces what differs from run to run: ids, times, boundaries. */
function generalised(text: string): string {
  return text
    .replace(/\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b(?=$|\\n|\n)/g, "ID")
    .replace(/Time:\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{7}Z/g, "Time:T")
    .replace(/datetime'2021-01-06T01%3A01%3A\d\d(\.\d{1,7})?Z'/g, "datetime'T'")
    .replace(/"Timestamp":"2021-01-06T01:01:\d\d(\.\d{1,7})?Z"/g, '"Timestamp":"T"')
    .replace(/(batchresponse|changesetresponse)_[-\w]*?(?=--|\r|\n|$)/g, "$1_G");
}

/** Requests that prepare a state, by way of the recorded ones where possible. */
class Send {
  readonly #handle: Handle;

  constructor(handle: Handle) {
    this.#handle = handle;
  }

  async exchange(number: number): Promise<void> {
    const answer = await inject(this.#handle, exchanges.get(number)!.request, true);
    assert.ok(answer.status < 300, answer.body);
  }

  /** With the recorded signature of that path, because bodies are not signed. */
  insert(body: string): Promise<void> {
    return this.#like(7, body);
  }

  createTable(name: string): Promise<void> {
    return this.#like(1, JSON.stringify({ TableName: name }));
  }

  allowOrigin(origin: string, method: string): Promise<void> {
    return this.#like(
      27,
      `<StorageServiceProperties><Cors><CorsRule><AllowedOrigins>${origin}</AllowedOrigins>` +
        `<AllowedMethods>${method}</AllowedMethods><AllowedHeaders>content-type,accept</AllowedHeaders>` +
        "<ExposedHeaders /><MaxAgeInSeconds>60</MaxAgeInSeconds></CorsRule></Cors></StorageServiceProperties>",
    );
  }

  async #like(number: number, body: string): Promise<void> {
    const { request } = exchanges.get(number)!;
    const answer = await inject(this.#handle, { ...request, body }, true);
    assert.ok(answer.status < 300, answer.body);
  }
}

function create(...names: string[]): (send: Send) => Promise<void> {
  return async (send) => {
    for (const name of names) await send.createTable(name);
  };
}

/** After creating the table and making one recorded insert. */
function after(number: number): (send: Send) => Promise<void> {
  return async (send) => {
    await send.createTable("People");
    await send.exchange(number);
  };
}
