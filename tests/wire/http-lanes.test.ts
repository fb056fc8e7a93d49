import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import { seededRandom } from "../support/seeded-random.ts";
import { corpus, type Plain, print, signed } from "./http-corpus.ts";
import { LanePair } from "./http-lane-pair.ts";

/*
 * Two readers of one protocol must not disagree on a byte: every request is sent through both lanes, whole and
 * damaged, and must be answered the same.
 */

const seed = Number(process.env.LANES_SEED ?? Date.now() % 1_000_000);
const rounds = Number(process.env.LANES_ROUNDS ?? 500);
const requests = corpus();
let pair: LanePair;
before(async () => {
  pair = await LanePair.open();
});
after(async () => {
  assert.deepEqual(pair.faults, []);
  await pair.close();
});

/** Sends to both, and checks that the answers are equal. */
async function agree(pieces: readonly (string | Uint8Array)[]): Promise<string> {
  const { node, fast, shown } = await ask(pieces);
  assert.equal(fast, node, shown);
  return fast;
}

/**
 * The same for requests followed by unreadable bytes or with an incomplete body. At these, node:http closes the
 * connection and drops unsent answers; its last answer depends on how the bytes arrived. Up to there the
 * answers must be equal.
 */
async function agreeUpToDamage(pieces: readonly (string | Uint8Array)[]): Promise<void> {
  const { node, fast, shown } = await ask(pieces);
  const farewell = /HTTP\/1\.1 4\d\d [\w ]+\r\nConnection: close\r\n\r\n$/;
  if (fast === node && !node.includes("\r\nConnection: close\r\n")) return;
  const [ours, theirs] = [fast.replace(farewell, ""), node.replace(farewell, "")];
  if (!ours.startsWith(theirs) && !theirs.startsWith(ours)) assert.equal(fast, node, shown);
  // After its last answer one server may have executed what the other has not, so both start again.
  await pair.close();
  pair = await LanePair.open();
}

async function ask(pieces: readonly (string | Uint8Array)[]) {
  const bytes = pieces.map((piece) =>
    typeof piece === "string" ? Buffer.from(piece, "latin1") : piece,
  );
  const { node, fast } = await pair.send(bytes);
  const shown = JSON.stringify(Buffer.concat(bytes).toString("latin1").slice(0, 3_000));
  const hung = { node: node.hung, fast: fast.hung };
  assert.deepEqual(hung, { node: false, fast: false }, `A server hung: ${shown}`);
  assert.doesNotMatch(`${node.bytes}${fast.bytes}`, /HTTP\/1\.1 5(?!01)/, shown);
  return { node: node.bytes, fast: fast.bytes, shown };
}

describe("Both lanes answer the same", () => {
  it("to every recorded request and every sample", async () => {
    for (const request of requests) {
      const answer = await agree([print(request)]);
      assert.match(answer, /^HTTP\/1\.1 \d{3} /, print(request));
    }
  });

  it("to all of them on one connection", async () => {
    await agree([requests.map(print).join("")]);
  });

  it("to a request split at any byte", async () => {
    const whole = print(requests.find(({ verb, body }) => verb === "PUT" && body.length > 0)!);
    for (let at = 1; at < whole.length; at++) await agree([whole.slice(0, at), whole.slice(at)]);
    await agree([...whole]);
  });

  it("to a request that ends anywhere in its head", async () => {
    const whole = print(requests.find(({ verb }) => verb === "GET")!);
    for (let at = 0; at < whole.length; at++) await agree([whole.slice(0, at)]);
  });

  for (const [what, draw] of Object.entries(oddities())) {
    it(`to ${what}`, async () => {
      for (const text of draw()) await agree([text]);
    });
  }

  it(`to randomly varied requests, ${rounds} times (seed ${seed}, LANES_SEED repeats it)`, async () => {
    const dice = new Dice(seed);
    for (let round = 0; round < rounds; round++) {
      const text = dice.some(3, () => print(vary(dice.pick(requests), dice))).join("");
      await agree(dice.cut(text));
    }
  });

  it(`to randomly damaged requests, up to the damage, ${rounds} times (seed ${seed}, LANES_SEED repeats it)`, async () => {
    const dice = new Dice(seed);
    for (let round = 0; round < rounds; round++) {
      let text = dice.some(3, () => print(vary(dice.pick(requests), dice))).join("");
      for (const _ of dice.some(3, () => 0)) text = damage(text, dice);
      await agreeUpToDamage(dice.cut(text));
    }
  });
});

/** A request with its target as curl sends it. */
function rawUtf8(verb: string, path: string): Plain {
  const request = signed(verb, path);
  return { ...request, target: Buffer.from(request.target, "utf8").toString("latin1") };
}

/** Requests that HTTP rarely allows, or never. */
function oddities(): Record<string, () => string[]> {
  const get = requests.find(({ verb, target }) => verb === "GET" && target.endsWith("/Tables"))!;
  const put = requests.find(({ verb, body }) => verb === "PUT" && body.length > 0)!;
  const withHeaders = (request: Plain, ...extra: [string, string][]) =>
    print({ ...request, headers: [...request.headers, ...extra] });
  const instead = (request: Plain, name: string, ...values: string[]) =>
    print({
      ...request,
      headers: request.headers.flatMap(([own, value]) =>
        own === name ? values.map((each) => [own, each] as const) : [[own, value] as const],
      ),
    });
  const chunks = (text: string) => `${text.length.toString(16)}\r\n${text}\r\n0\r\n\r\n`;
  const chunked = (body: string, coding = "chunked") =>
    print({
      ...put,
      headers: put.headers.map(([name, value]) =>
        name === "Content-Length" ? ["Transfer-Encoding", coding] : [name, value],
      ),
      body,
    });
  return {
    "other versions of HTTP": () =>
      ["HTTP/1.0", "HTTP/1.2", "HTTP/0.9", "HTTP/2.0", "http/1.1", "HTTP/1.1 ", ""].map((version) =>
        print({ ...get, version }),
      ),
    "other targets": () =>
      [
        "http://elsewhere/devstoreaccount1/Tables",
        "https://h",
        "*",
        "//devstoreaccount1/Tables",
        "",
        "?",
        "/devstoreaccount1/Tables#x",
        "/devstoreaccount1/Tables?a b",
        "/\u00e9",
        "/%C3%A9",
        "/a\tb",
        '/{}|\\^`"<>',
      ].map((target) => print({ ...get, target })),
    "targets in raw UTF-8, alone, behind others, chunked, and of bytes that are not UTF-8": () => {
      const raw = rawUtf8("GET", "/People(PartitionKey='\u00e9',RowKey='\u{1f600}')");
      const query = rawUtf8("GET", "/People?$filter=a%20eq%20'\u00e9'");
      const body = '{"a":1}';
      const put = rawUtf8("PUT", "/People(PartitionKey='\u00e9',RowKey='r')");
      const lone = { ...get, target: "/devstoreaccount1/People(PartitionKey='\u00e9',RowKey='r')" };
      return [
        print(raw),
        print(query),
        print(get) + print(raw) + print(query) + print(get),
        print({
          ...put,
          headers: [...put.headers, ["Transfer-Encoding", "chunked"]],
          body: chunks(body),
        }) + print(raw),
        withHeaders(put, ["Expect", "100-continue"], ["Content-Length", "7"]) + body,
        print(lone),
      ];
    },
    "other methods": () =>
      ["PROPFIND", "TRACE", "CONNECT", "get", "GETS", "", "M-SEARCH", "BREW", "PATCH", "HEAD"].map(
        (verb) => print({ ...get, verb }),
      ),
    "a missing, repeated, empty or invalid Host": () => [
      instead(get, "Host"),
      instead(get, "Host", "a", "b"),
      instead(get, "Host", ""),
      instead(get, "Host", "a b"),
      instead(get, "Host", "a/b"),
      instead({ ...get, version: "HTTP/1.0" }, "Host"),
    ],
    "invalid lengths": () =>
      [
        "",
        "-1",
        "+5",
        "5 5",
        "0x5",
        "5,5",
        "99999999999999999999",
        "5.0",
        `000${put.body.length}`,
        ` ${put.body.length} `,
      ].map((length) => instead(put, "Content-Length", length)),
    "two lengths": () => [
      instead(put, "Content-Length", String(put.body.length), String(put.body.length)),
      instead(put, "Content-Length", String(put.body.length), "1"),
    ],
    "a length together with chunks": () => [withHeaders(put, ["Transfer-Encoding", "chunked"])],
    "chunks of every kind": () => [
      chunked(chunks(put.body)),
      chunked(`1;a=b\r\n${put.body[0]}\r\n${chunks(put.body.slice(1))}`),
      chunked(chunks(put.body).replace("\r\n\r\n", "\r\nTrailer: x\r\n\r\n")),
      chunked(chunks(put.body), "Chunked"),
      chunked(chunks(put.body), "gzip, chunked"),
      chunked(chunks(put.body), "gzip"),
      chunked(`z\r\n${put.body}`),
      chunked(`${chunks(put.body)}${print(get)}`),
      chunked(`ffffffffffffffffff\r\n${put.body}`),
      chunked(chunks(" ".repeat(70_000))),
    ],
    "malformed headers": () =>
      [
        "Folded: a\r\n b",
        "Folded: a\r\n\tb",
        "Space : a",
        " Leading: a",
        "NoColon",
        ": empty",
        "Bad\u00e9: a",
        "Nul: a\u0000b",
        "Value: \u00e9",
        "Bare: a\rb",
        "Bare: a\nb: c",
        "Tab:\ta\t",
        "Empty:",
        "Del: \u007f",
      ].map((line) => print(get).replace("\r\n", `\r\n${line}\r\n`)),
    "header names in any case": () => [
      print({ ...put, headers: put.headers.map(([name, value]) => [name.toUpperCase(), value]) }),
      print({ ...put, headers: put.headers.map(([name, value]) => [name.toLowerCase(), value]) }),
    ],
    "headers given twice": () =>
      get.headers.map(([name, value]) => withHeaders(get, [name, value])),
    expectations: () => [
      withHeaders(put, ["Expect", "100-continue"]),
      withHeaders(put, ["Expect", "200-ok"]),
      withHeaders(get, ["Expect", "100-continue"]),
    ],
    "values of the Connection header": () =>
      [
        "close",
        "keep-alive",
        "Keep-Alive",
        "close, te",
        "upgrade",
        "keep-alive, upgrade",
        "x",
        "",
      ].map((wish) => withHeaders(get, ["Connection", wish]) + print(get)),
    upgrades: () => [
      withHeaders(get, ["Connection", "Upgrade"], ["Upgrade", "websocket"]),
      withHeaders(get, ["Upgrade", "h2c"]),
      "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
      "\u0016\u0003\u0001\u0002\u0000\u0001\u0000\u0001\u00fc\u0003\u0003",
    ],
    "line breaks around requests": () => [
      `\r\n${print(get)}`,
      `\r\n\r\n\r\n${print(get)}`,
      `\n${print(get)}`,
      `${print(get)}\r\n`,
      `${print(get)}\r\n\r\n${print(get)}`,
      "\r\n",
      "\r\n\r\n",
      print(get).replaceAll("\r\n", "\n"),
      print(get).replaceAll("\r\n", "\r"),
      print(get).replace("\r\n\r\n", "\r\n\n"),
      print(get).replace("\r\n\r\n", "\n\r\n"),
    ],
    "long heads": () => [
      ...[1_000, 15_000, 17_000, 60_000, 90_000, 97_000, 200_000].map((length) =>
        withHeaders(get, ["Long", "x".repeat(length)]),
      ),
      ...[15_000, 17_000, 90_000, 97_000].map((length) =>
        print({ ...get, target: `${get.target}?${"x".repeat(length)}` }),
      ),
      print({
        ...get,
        headers: [
          ...get.headers,
          ...Array.from({ length: 1_500 }, (_, i) => [`h${i}`, "x"] as const),
        ],
      }),
      print({
        ...get,
        headers: [
          ...get.headers,
          ...Array.from({ length: 3_000 }, (_, i) => [`h${i}`, "x"] as const),
        ],
      }),
    ],
    "long bodies": () => [
      print({
        ...put,
        headers: put.headers.map(([name, value]) => [
          name,
          name === "Content-Length" ? String(4 * 1024 * 1024) : value,
        ]),
        body: " ".repeat(4 * 1024 * 1024),
      }),
    ],
    "a body on GET": () => [
      print({ ...get, headers: [...get.headers, ["Content-Length", "5"]], body: "hello" }) +
        print(get),
    ],
  };
}

/** Random choices that a seed determines. */
class Dice {
  readonly #random: () => number;

  constructor(seed: number) {
    this.#random = seededRandom(seed);
  }

  below(n: number): number {
    return Math.floor(this.#random() * n);
  }

  pick<T>(list: readonly T[]): T {
    return list[this.below(list.length)]!;
  }

  /** Draws one to `max` values. */
  some<T>(max: number, draw: () => T): T[] {
    return Array.from({ length: 1 + this.below(max) }, draw);
  }

  /** A text in one to four pieces. */
  cut(text: string): string[] {
    const cuts = [0, ...this.some(3, () => this.below(text.length)), text.length].sort(
      (a, b) => a - b,
    );
    const pieces = cuts.map((at, i) => text.slice(at, cuts[i + 1])).filter((piece) => piece !== "");
    return pieces.length > 0 ? pieces : [""];
  }
}

/** A change after which the request is still readable, though perhaps meaningless. */
function vary(request: Plain, dice: Dice): Plain {
  const { headers } = request;
  const free = headers.filter(([name]) => name !== "Content-Length" && name !== "Host");
  const [name, value] = dice.pick(free) ?? ["x", "y"];
  const instead = (...entries: (readonly [string, string])[]) =>
    headers.flatMap((own) => (own[0] === name ? entries : [own]));
  switch (dice.below(9)) {
    case 0:
      return { ...request, headers: instead() };
    case 1:
      return { ...request, headers: instead([name, value], [name, dice.pick(["", value, "x"])]) };
    case 2:
      return { ...request, headers: headers.toReversed() };
    case 3:
      return { ...request, headers: instead([dice.pick([name.toUpperCase(), `x${name}`]), value]) };
    case 4:
      return {
        ...request,
        headers: instead([
          name,
          dice.pick([` ${value}\t`, "", value.slice(1), `${value},${value}`, `${value}\u00e9`]),
        ]),
      };
    case 5:
      return { ...request, target: dice.pick(requests).target };
    case 6:
      return {
        ...request,
        verb: dice.pick(["GET", "PUT", "POST", "DELETE", "MERGE", "HEAD", "OPTIONS", "LOCK"]),
      };
    case 7:
      return { ...request, headers: [...headers, dice.pick(PECULIAR)] };
    default:
      return request;
  }
}

const PECULIAR: readonly (readonly [string, string])[] = [
  ["Connection", "keep-alive"],
  ["Expect", "100-continue"],
  ["TE", "trailers"],
  ["Upgrade", "h2c"],
  ["X-HTTP-Method", "MERGE"],
  ["If-Match", "*"],
  ["Prefer", "return-no-content"],
  ["Origin", "http://a"],
  ["x-ms-client-request-id", "\u00ff"],
  ["Long", "x".repeat(17_000)],
];

/** A change of any bytes, most of them in heads, where parsers work. */
function damage(text: string, dice: Dice): string {
  const at = dice.below(dice.below(5) > 0 ? Math.min(text.length, 700) : text.length);
  const rest = text.slice(at);
  const start = text.slice(0, at);
  switch (dice.below(5)) {
    case 0:
      return start + String.fromCharCode(dice.below(256)) + rest.slice(1);
    case 1:
      return (
        start +
        dice.pick(["\r", "\n", "\r\n", " ", "\t", ":", "\u0000", "\u00ff", "%", "\\", "?", "#"]) +
        rest
      );
    case 2:
      return start + rest.slice(1 + dice.below(3));
    case 3:
      return start + rest.slice(0, dice.below(30)) + rest;
    default:
      return text.replace(/\r\n/, dice.pick(["\n", "\r", "\r\r\n", "\r\n ", "\n\r\n"]));
  }
}
