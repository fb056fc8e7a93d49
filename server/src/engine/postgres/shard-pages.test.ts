import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { Key } from "../engine.ts";
import { after } from "../key-codec.ts";
import { RowReader } from "./row-reader.ts";
import { type OnRow, ShardPages } from "./shard-pages.ts";

const ROWS = 100_000;
const WANTED = 1_001;

/** The rows of a table by their places. The sample takes them at even distances. */
class Rows {
  looks = 0;
  readonly pages = new ShardPages();

  readonly #ask = async (_: unknown, parameters: readonly unknown[], onRow: OnRow) => {
    this.looks++;
    const [, start, , , mask, most] = parameters;
    assert.ok(Buffer.isBuffer(start) && typeof mask === "number" && typeof most === "number");
    const from = Number(start.toString("latin1", 0, 6)) + 1;
    let count = 0;
    for (let row = from; row < ROWS && count < most; row++) {
      if ((row & mask) !== 0) continue;
      count++;
      onRow(rowOf(keyAt(row)));
    }
  };

  /** Where a page of so many rows may end, if it starts behind this one. */
  async endOf(row: number, rows: number): Promise<number> {
    const range = { start: after(keyAt(row)), end: keyAt(ROWS) };
    const key = await this.pages.endOf(range, rows, this.#ask);
    return key ? Number(Buffer.from(key.sort).toString()) : ROWS;
  }
}

function keyAt(row: number): Key {
  return { partition: Buffer.from("p"), sort: Buffer.from(String(row).padStart(6, "0")) };
}

/** As it comes from the server: two fields behind their number. */
function rowOf(key: Key): RowReader {
  const fields = [key.partition, key.sort].flatMap((field) => {
    const length = Buffer.alloc(4);
    length.writeInt32BE(field.length);
    return [length, field];
  });
  const reader = new RowReader({ resultFormat: 1 });
  reader.begin(Buffer.concat([Buffer.alloc(2), ...fields]), 0);
  return reader;
}

describe("ShardPages", () => {
  it("looks up the pages of a list ever further ahead, also where their rest is asked for by itself", async () => {
    const rows = new Rows();
    let page = 0;
    for (let row = -1; row + WANTED < ROWS; row += WANTED, page++) {
      const end = await rows.endOf(Math.max(row, 0), WANTED);
      assert.ok(end === ROWS || end > row + WANTED, `page ${page} is too short`);
      assert.ok(end <= row + 2 * WANTED || end === ROWS, `page ${page} is too long`);
      await rows.endOf(row + WANTED - 300, 300);
    }
    assert.equal(page, 99);
    assert.ok(rows.looks <= 7, `${rows.looks} looks`);
  });

  it("looks anew for pages that are much shorter or longer", async () => {
    const rows = new Rows();
    for (const wanted of [1_001, 64, 1, 65_536]) {
      const looks = rows.looks;
      const end = await rows.endOf(0, wanted);
      assert.ok(end > wanted && end <= 2 * wanted + 8, `${end} rows for ${wanted}`);
      assert.equal(rows.looks, looks + 1);
    }
  });
});
