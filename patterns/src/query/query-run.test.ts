import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { connect, entity, f, isTableError, k } from "../index.ts";
import { memory } from "../testing.ts";

const Visit = entity("Visit", {
  version: 1,
  fields: { town: f.string(), id: f.int32(), age: f.int32(), note: f.string().optional() },
  key: { partition: [k.str("town")], row: [k.lit("visit"), k.uint("id", 4)] },
});

async function open(options: Parameters<typeof memory>[0] = {}, cursorSecret?: string) {
  const backend = memory(options);
  const events: string[] = [];
  const db = connect({
    ...backend,
    ...(cursorSecret !== undefined && { cursorSecret }),
    onEvent: (event) => events.push(event.kind === "scan" ? event.because : event.kind),
  });
  await db.createTables(Visit);
  for (let id = 1; id <= 7; id++) await db.open(Visit).insert({ town: "Bonn", id, age: id * 10 });
  return { backend, db, events, visits: db.open(Visit) };
}

const ids = (rows: readonly { readonly id: number }[]) => rows.map(({ id }) => id);
const refused =
  (code: "validation-failed" | "scan-not-permitted" | "unsupported-by-profile") =>
  (error: unknown) =>
    isTableError(error, code);

describe("a database", () => {
  it("is refused without tables, or with an official client in their place", () => {
    for (const options of [undefined, {}, { tables: { listTables() {} } }] as never[]) {
      assert.throws(() => connect(options), refused("validation-failed"));
    }
  });
});

describe("a condition", () => {
  it("refuses a value that its field cannot hold, and names the field", async () => {
    const { visits } = await open();
    for (const value of [1.5, "40", undefined, null, Number.NaN] as number[]) {
      assert.throws(
        () => visits.range({ town: "Bonn" }).where(({ age }) => age.gt(value)),
        (error) => isTableError(error, "validation-failed") && error.issues[0]?.path === "age",
      );
    }
  });

  it("refuses half a surrogate pair, which a row may contain but a URL may not", async () => {
    const { visits } = await open();
    assert.throws(
      () => visits.range({ town: "Bonn" }).where(({ note }) => note.eq("\ud83d")),
      (error) => isTableError(error, "validation-failed") && /surrogate/.test(error.message),
    );
    visits.range({ town: "Bonn" }).where(({ note }) => note.eq("\ud83d\ude00"));
  });
});

describe("a value that is not an object", () => {
  it("is not accepted as a condition", async () => {
    const { visits } = await open();
    const nothing = (() => undefined) as never;
    assert.throws(
      () => visits.range({ town: "Bonn" }).where(nothing),
      refused("validation-failed"),
    );
  });

  it("is refused by every verb", async () => {
    const { visits } = await open();
    for (const nothing of [undefined, null, 5, "Bonn", []] as never[]) {
      for (const run of [
        () => visits.get(nothing),
        () => visits.mustGet(nothing),
        () => visits.getMany([nothing]),
        async () => visits.range(nothing).all(),
        () => visits.insert(nothing),
        () => visits.upsert(nothing),
        () => visits.insertOrMerge(nothing),
        () => visits.replace(nothing),
        () => visits.replaceIfUnchanged(nothing),
        () => visits.update(nothing, () => ({})),
        () => visits.delete(nothing),
        () => visits.delete(nothing, { force: true }),
        () => visits.deleteIfUnchanged(nothing),
        () => visits.reconcile(nothing),
      ]) {
        await assert.rejects(run, refused("validation-failed"), `${run} of ${nothing}`);
      }
    }
  });
});

describe("paging", () => {
  it("goes through short and empty pages without losing or repeating a row", async () => {
    for (const options of [{ pageEntitiesMax: 1 }, { pageEntitiesMax: 2, emptyPageShare: 0.5 }]) {
      const { visits } = await open(options);
      const query = visits.range({ town: "Bonn" }).limit(3);
      const seen: number[][] = [];
      for (let cursor: string | undefined; ; ) {
        const page = await query.page(cursor);
        seen.push(ids(page.items));
        cursor = page.cursor;
        if (cursor === undefined) break;
      }
      assert.deepEqual(
        seen.filter((page) => page.length > 0),
        [[1, 2, 3], [4, 5, 6], [7]],
      );
    }
  });

  it("resumes in another process, and refuses the cursor of another query", async () => {
    const { backend, visits } = await open();
    const { cursor } = await visits.range({ town: "Bonn" }).limit(2).page(undefined);
    const later = connect(backend).open(Visit);
    assert.deepEqual(
      ids((await later.range({ town: "Bonn" }).limit(5).page(cursor)).items),
      [3, 4, 5, 6, 7],
    );
    await assert.rejects(later.range({ town: "Köln" }).page(cursor), refused("validation-failed"));
    // As a web server parses a parameter that is given twice.
    const twice = [cursor, cursor] as unknown as string;
    await assert.rejects(later.range({ town: "Bonn" }).page(twice), refused("validation-failed"));
    await assert.rejects(
      later.range({ town: "Bonn", id: 3 }).page(cursor),
      refused("validation-failed"),
    );
    for (const nonsense of ["", "x", "e30", "eyJ2IjoxfQ"]) {
      await assert.rejects(
        later.range({ town: "Bonn" }).page(nonsense),
        refused("validation-failed"),
      );
    }
  });

  it("signs cursors with a secret, and accepts no altered, foreign or unsigned one", async () => {
    const { backend, visits } = await open({}, "secret");
    const { cursor = "" } = await visits.range({ town: "Bonn" }).limit(2).page(undefined);
    const page = (text: string, secret = "secret") =>
      connect({ ...backend, cursorSecret: secret })
        .open(Visit)
        .range({ town: "Bonn" })
        .page(text);
    assert.deepEqual(ids((await page(cursor)).items), [3, 4, 5, 6, 7]);
    const [payload = "", signature = ""] = cursor.split(".");
    const altered = btoa(atob(payload).replace("visit_0003", "visit_0005")).replaceAll("=", "");
    for (const text of [
      payload,
      `${payload}.`,
      `${altered}.${signature}`,
      `${payload}.${signature}x`,
    ]) {
      await assert.rejects(page(text), refused("validation-failed"), text);
    }
    await assert.rejects(page(cursor, "other"), refused("validation-failed"));
  });
});

describe("a range", () => {
  it("over one key is a point query, and is empty if its bounds exclude that key", async () => {
    const { visits } = await open();
    const asked = async (id: NonNullable<Parameters<typeof visits.range>[0]["id"]>) => {
      const query = visits.range({ town: "Bonn", id });
      return [query.explain().plan, ids(await query.all()), (await query.first())?.id];
    };
    assert.deepEqual(await asked({ gte: 5, lte: 5 }), ["point", [5], 5]);
    assert.deepEqual(await asked({ gte: 5, lt: 5 }), ["range", [], undefined]);
    assert.deepEqual(await asked({ gt: 5, lte: 5 }), ["range", [], undefined]);
    assert.deepEqual(await asked({ gt: 5, lt: 5 }), ["range", [], undefined]);
  });
});

describe("a scan", () => {
  it("runs only with a permit for its class and a reason, in plain JavaScript too", async () => {
    const { db, events, visits } = await open();
    const scan = visits.scan() as unknown as { all(permit?: unknown): Promise<unknown[]> };
    const { requests } = await db.metered(async () => {
      for (const permit of [
        undefined,
        {},
        { allow: "table-scan" },
        { allow: "table-scan", because: "" },
        { allow: "partition-scan", because: "x" },
        true,
      ]) {
        await assert.rejects(
          scan.all(permit),
          refused("scan-not-permitted"),
          JSON.stringify(permit),
        );
      }
    });
    assert.equal(requests, 0);
    assert.equal((await scan.all({ allow: "table-scan", because: "export" })).length, 7);
    const old = visits.range({ town: "Bonn" }).where(({ age }) => age.gt(40).and(age.lte(60)));
    assert.equal(old.explain().plan, "partition-scan");
    assert.deepEqual(ids(await old.all({ allow: "partition-scan", because: "small" })), [5, 6]);
    assert.deepEqual(events, ["export", "small"]);
  });
});

describe("an endpoint that promises no order", () => {
  it("has its ranges collected and sorted by the client, and its pages refused", async () => {
    const { visits } = await open({ profile: "cosmos", pageEntitiesMax: 2 });
    const query = visits.range({ town: "Bonn" });
    assert.deepEqual(ids(await query.limit(3).all()), [1, 2, 3]);
    assert.equal((await query.first())?.id, 1);
    const streamed = async (run: Pick<typeof query, "stream">) => {
      const rows: { id: number }[] = [];
      for await (const row of run.stream()) rows.push(row);
      return ids(rows);
    };
    assert.deepEqual(await streamed(query.limit(3)), [1, 2, 3]);
    assert.deepEqual(await streamed(query), ids(await query.all()));
    assert.ok(query.explain().notes.some((note) => note.includes("no order")));
    await assert.rejects(query.page(undefined), refused("unsupported-by-profile"));
  });

  it("allows shorter row keys", async () => {
    const Long = entity("Long", {
      version: 1,
      fields: { p: f.string(), name: f.string() },
      key: { partition: [k.str("p")], row: [k.str("name")] },
    });
    for (const [profile, limit] of [
      ["cosmos", 255],
      ["azure", 512],
    ] as const) {
      const db = connect(memory({ profile }));
      await db.createTables(Long);
      await db.open(Long).insert({ p: "p", name: "x".repeat(limit) });
      await assert.rejects(
        db.open(Long).insert({ p: "p", name: "x".repeat(limit + 1) }),
        (error) => isTableError(error, "key-too-long") && error.limit === limit,
      );
    }
  });
});
