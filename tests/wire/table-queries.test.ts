import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import type { HttpAnswer } from "./http-answer.ts";
import { assertRefused, type Refusal } from "./refusals.ts";
import { WireTarget } from "./table-target.ts";

const target = await WireTarget.open();
after(() => target.close());
const { wire } = target;

const NOMETADATA = { Accept: "application/json;odata=nometadata" };

describe("A filter", () => {
  let table: string;
  before(async () => {
    const types = {
      s: "m",
      i: 6,
      "l@odata.type": "Edm.Int64",
      l: "6000000000",
      d: 6.5,
      b: true,
      "t@odata.type": "Edm.DateTime",
      t: "2012-11-10T03:04:05.2Z",
      "g@odata.type": "Edm.Guid",
      g: "C9DA6455-213D-42C9-9A79-3E9149A57833",
      "x@odata.type": "Edm.Binary",
      x: "AQID",
      "nan@odata.type": "Edm.Double",
      nan: "NaN",
    };
    table = await target.tableOf(
      { PartitionKey: "p", RowKey: "typed", ...types },
      { PartitionKey: "p", RowKey: "bare" },
      { PartitionKey: "q", RowKey: "O'Brien" },
    );
  });

  const all = ["bare", "typed", "O'Brien"];
  const matches: readonly (readonly [filter: string, rows: readonly string[]])[] = [
    ["s eq 'm'", ["typed"]],
    ["s ne 'm'", []],
    ["s ne 'x'", ["typed"]],
    ["s gt ''", ["typed"]],
    ["s lt ''", []],
    ["s ge 'l' and s le 'n'", ["typed"]],
    ["i eq 6", ["typed"]],
    ["5 lt i", ["typed"]],
    ["6 ge i", ["typed"]],
    ["not (i le 5)", all],
    ["not(i ne 6)", all],
    ["i gt -7", ["typed"]],
    ["i gt 5L", []],
    ["i lt 5L", ["typed"]],
    ["i ne 5L", ["typed"]],
    ["i eq 6.0", []],
    ["l gt 5", ["typed"]],
    ["l eq 6000000000L", ["typed"]],
    ["l eq 6000000000", ["typed"]],
    ["d gt 6", ["typed"]],
    ["d lt 6.6", ["typed"]],
    ["d eq 65e-1", ["typed"]],
    ["b", ["typed"]],
    ["not b", ["bare", "O'Brien"]],
    ["b eq true", ["typed"]],
    ["b gt false", ["typed"]],
    ["i", []],
    ["missing", []],
    ["missing eq 1", []],
    ["missing ne 1", []],
    ["not (missing ne 1)", all],
    ["t eq datetime'2012-11-10T03:04:05.2000000Z'", ["typed"]],
    ["t lt datetime'2012-11-10T03:04:05.2000001Z'", ["typed"]],
    ["t ne ''", ["typed"]],
    ["t gt ''", []],
    ["t le ''", ["typed"]],
    ["g eq guid'c9da6455-213d-42c9-9a79-3e9149a57833'", ["typed"]],
    ["g eq Guid'C9DA6455-213d-42c9-9a79-3e9149a57833'", ["typed"]],
    ["x eq X'010203'", ["typed"]],
    ["x gt binary'0102'", ["typed"]],
    ["x lt X'0103'", ["typed"]],
    ["nan eq 1.0 or nan lt 1.0 or nan gt 1.0", []],
    ["Timestamp gt datetime'2001-01-01T00:00:00Z'", all],
    ["RowKey eq 'O''Brien'", ["O'Brien"]],
    ["PartitionKey eq 'p' and RowKey eq 'typed'", ["typed"]],
    ["RowKey eq 'typed' and PartitionKey eq 'p'", ["typed"]],
    ["(PartitionKey eq 'q' or PartitionKey eq 'p') and RowKey gt 'a'", ["bare", "typed"]],
    ["PartitionKey eq 'q' or PartitionKey eq 'p' and RowKey eq 'bare'", ["bare", "O'Brien"]],
    [
      "(PartitionKey eq 'q' and RowKey eq 'O''Brien') or (PartitionKey eq 'p' and RowKey eq 'bare') or (PartitionKey eq 'p' and RowKey eq 'none')",
      ["bare", "O'Brien"],
    ],
    ["PartitionKey gt 'p'", ["O'Brien"]],
    ["PartitionKey ne 'p'", ["O'Brien"]],
    ["PartitionKey lt 'p' and PartitionKey gt 'p'", []],
    ["true", all],
    ["false or s eq 'm'", ["typed"]],
    ["   s    eq\t'm'  ", ["typed"]],
    ["", all],
  ];
  for (const [filter, rows] of matches) {
    it(`${filter || "(empty)"} → ${rows.join(", ") || "nothing"}`, async () => {
      const answer = await query(table, { filter }, NOMETADATA);
      assert.equal(answer.status, 200, String(answer));
      assert.deepEqual(rowKeys(answer), rows);
    });
  }

  const input = (message: string): Refusal => ({ status: 400, code: "InvalidInput", message });
  const plain = input("One of the request inputs is not valid.");
  const refusals: readonly (readonly [filter: string, refusal: Refusal])[] = [
    ["aaa bbb ccc", input("Syntax error at position 7 in 'aaa bbb ccc'.")],
    [
      "(PartitionKey ) and (RowKey ge '000050')",
      input(
        "A binary operator with incompatible types was detected. Found operand types 'Edm.String' and 'Edm.Boolean' for operator kind 'And'.",
      ),
    ],
    [
      "PartitionKey eq 5",
      input(
        "A binary operator with incompatible types was detected. Found operand types 'Edm.String' and 'Edm.Int32' for operator kind 'Equal'.",
      ),
    ],
    ["s eq null", plain],
    ["s eq i", { status: 400, code: "InvalidInput" }],
    ["s eq", { status: 400, code: "InvalidInput" }],
    ["s EQ 'm'", { status: 400, code: "InvalidInput" }],
    ["(s eq 'm'", { status: 400, code: "InvalidInput" }],
    ["s eq 'm", { status: 400, code: "InvalidInput" }],
    ["s eq 'm'')", { status: 400, code: "InvalidInput" }],
    ["t eq datetime'soon'", { status: 400, code: "InvalidInput" }],
    ["g eq guid'123'", { status: 400, code: "InvalidInput" }],
    ["x eq X'1'", { status: 400, code: "InvalidInput" }],
    ["s eq 'm' and", { status: 400, code: "InvalidInput" }],
    ["(".repeat(5_000), { status: 400, code: "InvalidInput" }],
    ["not ".repeat(5_000), { status: 400, code: "InvalidInput" }],
    ["startswith(s,'m')", { status: 501, code: "NotImplemented" }],
    ["nosuchfunction(s)", { status: 400, code: "InvalidInput" }],
  ];
  for (const [filter, refusal] of refusals) {
    it(`${filter.slice(0, 60)} is refused`, async () => {
      assertRefused(await query(table, { filter }), refusal, "json");
    });
  }

  it("of more than 32 KiB is accepted", async () => {
    const clauses = Array.from({ length: 1200 }, (_, i) => `RowKey eq 'row${i}'`);
    const filter = `PartitionKey eq 'p' and (${clauses.join(" or ")} or RowKey eq 'bare')`;
    assert.equal(encodeURIComponent(filter).length > 32 * 1024, true);
    assert.deepEqual(rowKeys(await query(table, { filter })), ["bare"]);
  });

  it("may encode a space as + or %20, and $ escaped or not", async () => {
    for (const path of ["?%24filter=RowKey+eq+'bare'", "?$filter=RowKey%20eq%20%27bare%27"]) {
      assert.deepEqual(rowKeys(await wire.send("GET", `/${table}${path}`)), ["bare"]);
    }
  });

  it("is refused twice in one query, as are unknown $ options", async () => {
    assertRefused(await wire.send("GET", `/${table}?$filter=b&$filter=i`), plain);
    assertRefused(await wire.send("GET", `/${table}?$magic=1`), plain);
    assert.equal((await wire.send("GET", `/${table}?$filter=&$select=&$top=&other=1`)).status, 200);
  });
});

describe("A list", () => {
  it("has the ETag of each entity, except with nometadata", async () => {
    const table = await target.tableOf({ PartitionKey: "p", RowKey: "r", v: 1 });
    const minimal = await query(table, {});
    const [item] = minimal.items();
    const etag = String(item!["odata.etag"]);
    assert.equal(
      minimal.text,
      `{"odata.metadata":"${target.url}/$metadata#${table}","value":[{"odata.etag":${JSON.stringify(etag)},` +
        `"PartitionKey":"p","RowKey":"r","Timestamp":"${item!.Timestamp}","v":1}]}`,
    );
    assert.equal(minimal.header("etag"), undefined);
    const bare = await query(table, {}, NOMETADATA);
    assert.equal(
      bare.text,
      `{"value":[{"PartitionKey":"p","RowKey":"r","Timestamp":"${item!.Timestamp}","v":1}]}`,
    );
    const full = await query(table, {}, { Accept: "application/json;odata=fullmetadata" });
    const address = `${table}(PartitionKey='p',RowKey='r')`;
    assert.deepEqual(full.items(), [
      {
        "odata.type": `${target.account}.${table}`,
        "odata.id": `${target.url}/${address}`,
        "odata.etag": etag,
        "odata.editLink": address,
        PartitionKey: "p",
        RowKey: "r",
        "Timestamp@odata.type": "Edm.DateTime",
        Timestamp: item!.Timestamp,
        v: 1,
      },
    ]);
  });

  it("contains the selected properties, null for those that an entity lacks", async () => {
    const table = await target.tableOf(
      { PartitionKey: "p", RowKey: "1", age: 7 },
      { PartitionKey: "p", RowKey: "2", sex: "f" },
    );
    const answer = await query(table, { select: "age,sex,age" });
    const etags = answer.items().map((item) => JSON.stringify(item["odata.etag"]));
    assert.equal(
      answer.text,
      `{"odata.metadata":"${target.url}/$metadata#${table}&$select=age,sex","value":[` +
        `{"odata.etag":${etags[0]},"age":7,"sex":null},{"odata.etag":${etags[1]},"age":null,"sex":"f"}]}`,
    );
    const keys = await query(table, { select: "RowKey,PartitionKey" }, NOMETADATA);
    assert.equal(
      keys.text,
      '{"value":[{"RowKey":"1","PartitionKey":"p"},{"RowKey":"2","PartitionKey":"p"}]}',
    );
    assertRefused(await query(table, { select: "a-b" }), { status: 400, code: "InvalidInput" });
  });

  it("is empty if nothing matches, even if both keys are given", async () => {
    const table = await target.table();
    for (const filter of ["", "PartitionKey eq 'p' and RowKey eq 'r'"]) {
      const answer = await query(table, { filter }, NOMETADATA);
      assert.equal(answer.text, '{"value":[]}');
    }
    assertRefused(await query("Nobody", {}), { status: 404, code: "TableNotFound" });
  });

  it("is in the order of UTF-16 code units, partition by partition", async () => {
    const keys = ["", "A", "B", "a", "b", "bB", "rk1", "rk10", "rk11", "rk2", "é", "𝒳", "\uffee"];
    const table = await target.table();
    for (const key of [...keys].reverse()) {
      await target.insert(table, { PartitionKey: "p", RowKey: key });
      await target.insert(table, { PartitionKey: key, RowKey: "r" });
    }
    const inside = await query(table, { filter: "PartitionKey eq 'p'" });
    assert.deepEqual(rowKeys(inside).sort(compare), rowKeys(inside));
    assert.deepEqual(rowKeys(inside), [...keys, "r"].filter((key) => key !== "r").sort(compare));
    const across = (await query(table, {})).items().map(({ PartitionKey }) => String(PartitionKey));
    assert.deepEqual([...across].sort(compare), across);
  });
});

describe("Pages", () => {
  let table: string;
  const rows = Array.from({ length: 12 }, (_, i) => `r${String(i).padStart(2, "0")}`);
  before(async () => {
    table = await target.table();
    for (const [i, row] of rows.entries()) {
      await target.insert(table, {
        PartitionKey: `p${Math.floor(i / 4)}`,
        RowKey: row,
        odd: i % 2 === 1,
      });
    }
  });

  it("contain $top entities, and their token names the next one", async () => {
    const first = await query(table, { top: 3 });
    assert.deepEqual(rowKeys(first), rows.slice(0, 3));
    assert.equal(first.header("x-ms-continuation-nextpartitionkey"), token("p0"));
    assert.equal(first.header("x-ms-continuation-nextrowkey"), token("r03"));
    for (const top of [1, 3, 4, 5, 11]) {
      const pages = await everyPage(table, { top });
      assert.deepEqual(pages.flat(), rows);
      assert.ok(pages.slice(0, -1).every((page) => page.length === top));
    }
  });

  it("end without a token if the last one is exactly full", async () => {
    for (const filter of ["", "PartitionKey eq 'p2'"]) {
      const answer = await query(table, { filter, top: filter ? 4 : 12 });
      assert.equal(answer.items().length, filter ? 4 : 12);
      assert.equal(answer.header("x-ms-continuation-nextpartitionkey"), undefined);
    }
  });

  it("work alike for a filter, a key range and a list of keys", async () => {
    for (const [filter, expected] of [
      ["odd", rows.filter((_, i) => i % 2 === 1)],
      ["RowKey ge 'r03' and RowKey lt 'r09'", rows.slice(3, 9)],
      ["PartitionKey eq 'p1' or PartitionKey eq 'p2'", rows.slice(4)],
      [
        ["p2/r11", "p0/r01", "p1/r05", "p0/r00"]
          .map((key) => key.split("/"))
          .map(([p, r]) => `(PartitionKey eq '${p}' and RowKey eq '${r}')`)
          .join(" or "),
        ["r00", "r01", "r05", "r11"],
      ],
    ] as const) {
      for (const top of [1, 2, 3, 5]) {
        assert.deepEqual(
          (await everyPage(table, { filter, top })).flat(),
          expected,
          `${filter} by ${top}`,
        );
      }
    }
  });

  it("lose and repeat nothing when entities are deleted and inserted between them", async () => {
    const own = await target.table();
    for (const row of rows) await target.insert(own, { PartitionKey: "p", RowKey: row });
    const seen: string[] = [];
    let next = "";
    for (let page = 0; ; page++) {
      const answer = await query(own, { top: 3 }, {}, next);
      seen.push(...rowKeys(answer));
      const row = answer.header("x-ms-continuation-nextrowkey");
      if (!row) break;
      next = `&NextPartitionKey=${token("p")}&NextRowKey=${row}`;
      // The entity that the token names is deleted before the token is used.
      const gone = rows[(page + 1) * 3]!;
      await wire.send("DELETE", `/${own}(PartitionKey='p',RowKey='${gone}')`, {
        headers: { "If-Match": "*" },
      });
      await target.insert(own, { PartitionKey: "p", RowKey: `a${page}` });
    }
    const kept = rows.filter((_, i) => i % 3 !== 0 || i === 0);
    assert.deepEqual(
      seen.filter((row) => kept.includes(row)),
      kept,
    );
    assert.equal(new Set(seen).size, seen.length);
  });

  it("start where the token says, whether it was written by Rowhouse, by the cloud or by hand", async () => {
    for (const [next, expected] of [
      [`&NextPartitionKey=${token("p1")}&NextRowKey=${token("r06")}`, "r06"],
      [`&NextPartitionKey=${token("p1")}&NextRowKey=${encodeURIComponent(token("r055"))}`, "r06"],
      [`&NextPartitionKey=${token("p1")}`, "r04"],
      [`&NextPartitionKey=${token("p1")}&NextRowKey=`, "r04"],
      [`&NextPartitionKey=${token("p05")}`, "r04"],
      [`&NextPartitionKey=1!4!cDE-&NextRowKey=1!0!`, "r04"],
    ] as const) {
      const answer = await query(table, { top: 1 }, {}, next);
      assert.deepEqual(rowKeys(answer), [expected], next);
    }
    assert.deepEqual(rowKeys(await query(table, {}, {}, `&NextPartitionKey=${token("q")}`)), []);
  });

  it("refuse an invalid token", async () => {
    for (const next of [
      "&NextPartitionKey=p1",
      "&NextPartitionKey=1!5!cDE-",
      "&NextPartitionKey=1!4!c(E-",
      "&NextPartitionKey=2!4!cDE-",
      "&NextPartitionKey=1!2!_w",
      "&NextRowKey=1!4!cDE-",
    ]) {
      assertRefused(await query(table, {}, {}, next), {
        status: 400,
        code: "InvalidInput",
        message: "One of the request inputs is not valid.",
      });
    }
  });

  it("carry keys with any characters in their tokens", async () => {
    const own = await target.table();
    const keys = ["partition1-ô- -'-\"-%20-%27-pk", "𝒳+~~", "\u00ff\u00ff\u00ff>>>"].sort(compare);
    for (const key of keys) await target.insert(own, { PartitionKey: key, RowKey: key });
    await target.insert(own, { PartitionKey: "", RowKey: "" });
    assert.deepEqual((await everyPage(own, { top: 1 })).flat(), ["", ...keys]);
  });

  it("omit the next row key if it is empty", async () => {
    const own = await target.tableOf(
      { PartitionKey: "a", RowKey: "x" },
      { PartitionKey: "b", RowKey: "" },
    );
    const answer = await query(own, { top: 1 });
    assert.equal(answer.header("x-ms-continuation-nextpartitionkey"), token("b"));
    assert.equal(answer.header("x-ms-continuation-nextrowkey"), undefined);
    assert.deepEqual((await everyPage(own, { top: 1 })).flat(), ["x", ""]);
  });

  it("contain a thousand entities by default", async () => {
    const own = await target.table();
    const keys = Array.from({ length: 1001 }, (_, i) => `k${String(i).padStart(4, "0")}`);
    const bytes = keys.map((key) =>
      wire.bytes("POST", `/${own}`, {
        body: { PartitionKey: "p", RowKey: key },
        headers: { Prefer: "return-no-content" },
      }),
    );
    await wire.pipeline(bytes);
    const pages = await everyPage(own, {});
    assert.deepEqual(
      pages.map((page) => page.length),
      [1000, 1],
    );
    assert.deepEqual(pages.flat(), keys);
  });

  it("end early if entities are large, and continue after them", async () => {
    const own = await target.table();
    const large = Object.fromEntries(
      Array.from({ length: 14 }, (_, i) => [`s${i}`, "x".repeat(32_000)]),
    );
    for (let i = 0; i < 24; i++)
      await target.insert(own, { PartitionKey: "p", RowKey: `${10 + i}`, ...large });
    const pages = await everyPage(own, {});
    assert.ok(pages.length > 1);
    assert.deepEqual(
      pages.flat(),
      Array.from({ length: 24 }, (_, i) => `${10 + i}`),
    );
  });
});

interface Options {
  readonly filter?: string;
  readonly select?: string;
  readonly top?: number;
}

function query(
  table: string,
  { filter, select, top }: Options,
  headers: Record<string, string> = {},
  next = "",
): Promise<HttpAnswer> {
  const options = [
    filter !== undefined && `$filter=${encodeURIComponent(filter)}`,
    select !== undefined && `$select=${encodeURIComponent(select)}`,
    top !== undefined && `$top=${top}`,
  ];
  return wire.send("GET", `/${table}()?${options.filter(Boolean).join("&")}${next}`, { headers });
}

/** The row keys of page after page, as a client reads them. */
async function everyPage(table: string, options: Options): Promise<string[][]> {
  const pages: string[][] = [];
  let next = "";
  for (;;) {
    const answer = await query(table, options, {}, next);
    assert.equal(answer.status, 200, String(answer));
    pages.push(rowKeys(answer));
    const partition = answer.header("x-ms-continuation-nextpartitionkey");
    const row = answer.header("x-ms-continuation-nextrowkey");
    if (partition === undefined) return pages;
    next = `&NextPartitionKey=${partition}${row ? `&NextRowKey=${row}` : ""}`;
  }
}

function rowKeys(answer: HttpAnswer): string[] {
  return answer.items().map(({ RowKey }) => String(RowKey));
}

function token(key: string): string {
  const text = Buffer.from(key).toString("base64").replaceAll("=", "-");
  return `1!${text.length}!${text}`;
}

/** By UTF-16 code units, which is how JavaScript compares. */
function compare(a: string, b: string): number {
  return a < b ? -1 : a > b ? 1 : 0;
}
