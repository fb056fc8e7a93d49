import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { ServiceError } from "@rowhouse/protocol/errors";
import { LIMITS } from "@rowhouse/protocol/limits";
import fc from "fast-check";
import { parseBlockList } from "./block-list.ts";

const DECLARATION = '<?xml version="1.0" encoding="utf-8"?>';
/** Declarations sent by clients in several languages. */
const DECLARATIONS = [
  "",
  "\ufeff",
  DECLARATION,
  `${DECLARATION}\n`,
  '<?xml version="1.0"?>',
  '<?xml version="1.0" encoding="UTF-8" standalone="yes" ?>\r\n',
  "<?xml version='1.0' encoding='utf-8'?>\n",
];
/** Has no meaning, but no client sends it, so that the list takes the general path. */
const COMMENT = "<!-- c -->";

function listOf(blocks: string): Buffer {
  return Buffer.from(`${DECLARATION}<BlockList>${blocks}</BlockList>`);
}

/** The parsed list, or the code of the error. */
function readingOf(body: Uint8Array): unknown {
  try {
    return parseBlockList(body);
  } catch (error) {
    assert.ok(error instanceof ServiceError);
    return error.code;
  }
}

describe("A block list", () => {
  it("is read with any declaration and any amount of white space", () => {
    const blocks = `\n <Latest>AAAA</Latest>\r\n\t<Committed> QQ== </Committed>${" ".repeat(LIMITS.xmlBodyBytesMax)}\n`;
    for (const declaration of DECLARATIONS) {
      const body = Buffer.from(`${declaration}<BlockList>${blocks}</BlockList>\n`);
      assert.deepEqual(
        parseBlockList(body),
        [
          { from: "Latest", id: "AAAA" },
          { from: "Committed", id: "QQ==" },
        ],
        declaration,
      );
    }
    assert.deepEqual(parseBlockList(Buffer.from("<BlockList />")), []);
  });

  it("is read with 50,000 blocks of the longest ids and elements, and refused with one more", () => {
    const id = Buffer.alloc(LIMITS.blockIdBytesMax, 255).toString("base64");
    const block = `  <Uncommitted>${id}</Uncommitted>\r\n`;
    const whole = listOf(block.repeat(LIMITS.committedBlocksMax));
    assert.ok(whole.length <= LIMITS.blockListBodyBytesMax);
    const choices = parseBlockList(whole);
    assert.equal(choices.length, LIMITS.committedBlocksMax);
    assert.deepEqual(choices.at(-1), { from: "Uncommitted", id });
    const longer = listOf(block.repeat(LIMITS.committedBlocksMax + 1));
    assert.equal(readingOf(longer), "BlockListTooLong");
  });

  it("with a comment has the size limit of all other documents", () => {
    const { xmlBodyBytesMax } = LIMITS;
    const room = xmlBodyBytesMax - listOf("<Latest>AAAA</Latest><!---->").length;
    const padded = (bytes: number) =>
      listOf(`<Latest>AAAA</Latest><!--${" ".repeat(room + bytes)}-->`);
    assert.equal(padded(0).length, xmlBodyBytesMax);
    assert.deepEqual(readingOf(padded(0)), [{ from: "Latest", id: "AAAA" }]);
    assert.equal(readingOf(padded(1)), "RequestBodyTooLarge");
  });

  it("has the same result in the fast path as in the general parser, valid or not", () => {
    const piece = fc.constantFrom(
      ...["<Latest>", "</Latest>", "<Committed>", "</Committed>", "<Latest/>", "<Other>"],
      ...["AAAA", "A&amp;A", "A;A", "&", "]]>", ">", "\u0001", "\u00e9", " ", "\n", "\u00a0"],
      ...["<Latest>QQ==</Latest>", "<Uncommitted> b </Uncommitted>", "<Latest></Latest>"],
    );
    fc.assert(
      fc.property(fc.array(piece, { maxLength: 8 }), (pieces) => {
        const blocks = pieces.join("");
        assert.deepEqual(readingOf(listOf(blocks)), readingOf(listOf(blocks + COMMENT)));
      }),
      { numRuns: 2000 },
    );
  });
});
