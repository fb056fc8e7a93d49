import assert from "node:assert/strict";
import { describe, it } from "node:test";
import fc from "fast-check";
import { ServiceError } from "./errors.ts";
import { parseFilter, parseTableFilter } from "./filter-parser.ts";
import { printFilter } from "./filter-printer.ts";
import { LIMITS } from "./limits.ts";

const INVALID = "One of the request inputs is not valid.";

describe("parseFilter", () => {
  it("binds not before and, and before or", () => {
    check("A or B and not C or D", "A or B and not C or D", [
      "or",
      "A",
      ["and", "B", ["not", "C"]],
      "D",
    ]);
    check("(A or B) and not (C or D)", "(A or B) and not (C or D)", [
      "and",
      ["or", "A", "B"],
      ["not", ["or", "C", "D"]],
    ]);
  });

  it("applies not to a whole comparison, with or without parentheses", () => {
    check("not A eq 1", "not (A eq 1)");
    check("not(A eq 1)", "not (A eq 1)");
    check("not not A", "not not A");
  });

  it("merges chains that only parentheses separate", () => {
    check("A or (B or C)", "A or (B or C)");
    check("((A)) and (((B)))", "A and B");
  });

  it("swaps the sides of a comparison so that its property is on the left", () => {
    check("5 lt Age", "Age gt 5");
    check("5 le Age", "Age ge 5");
    check("5 gt Age", "Age lt 5");
    check("5 ge Age", "Age le 5");
    check("'x' eq (Name)", "Name eq 'x'");
    check("5 ne Age", "Age ne 5");
  });

  it("accepts any white space between tokens, and none where it is unnecessary", () => {
    check("  A\teq\r\n1  ", "A eq 1");
    check("(A eq 1)and(B eq 2)", "A eq 1 and B eq 2");
    check("A eq 'x'or B", "A eq 'x' or B");
    check("A\u00a0eq\u20031", "A eq 1");
  });

  it("accepts properties with the names of operators", () => {
    check("eq eq 'and' and and eq or", INVALID);
    check("eq eq 'and' and and ne 1 or or", "eq eq 'and' and and ne 1 or or");
    check("add gt 1 and lt", "add gt 1 and lt");
  });

  it("is case-sensitive about keywords and names", () => {
    check("A EQ 1", "Syntax error at position 4 in 'A EQ 1'.");
    check("A AND B", "Syntax error at position 5 in 'A AND B'.");
    check("Eq eq 1", "Eq eq 1");
  });

  it("is not case-sensitive about true and false", () => {
    check("b eq True or b eq FALSE", "b eq true or b eq false");
  });

  it("accepts names in any script", () => {
    check("名前 eq 'é' and _x1 and Straße", "名前 eq 'é' and _x1 and Straße");
    check("𝒳 eq 1", "𝒳 eq 1");
  });

  it("accepts 3,000 clauses in a chain", () => {
    const text = Array.from({ length: 3000 }, (_, index) => `RowKey eq '${index}'`).join(" or ");
    assert.equal(printFilter(parseFilter(text)), text);
  });
});

describe("parseFilter on literals", () => {
  it("distinguishes Int32 from Int64 by the suffix and by size", () => {
    literal("5", { type: "Edm.Int32", value: 5 });
    literal("-5", { type: "Edm.Int32", value: -5 });
    literal("-0", { type: "Edm.Int32", value: 0 });
    literal("2147483647", { type: "Edm.Int32", value: 2 ** 31 - 1 });
    literal("-2147483648", { type: "Edm.Int32", value: -(2 ** 31) });
    literal("2147483648", { type: "Edm.Int64", value: 2n ** 31n });
    literal("-2147483649", { type: "Edm.Int64", value: -(2n ** 31n) - 1n });
    literal("5L", { type: "Edm.Int64", value: 5n });
    literal("-5l", { type: "Edm.Int64", value: -5n });
    literal("9007199254740993L", { type: "Edm.Int64", value: 9007199254740993n });
    literal("9223372036854775807", { type: "Edm.Int64", value: 2n ** 63n - 1n });
    literal("-9223372036854775808L", { type: "Edm.Int64", value: -(2n ** 63n) });
  });

  it("reads a fraction, an exponent or the suffix d as a Double", () => {
    literal("123.45", { type: "Edm.Double", value: 123.45 });
    literal("1e3", { type: "Edm.Double", value: 1000 });
    literal("-1.5E-3", { type: "Edm.Double", value: -0.0015 });
    literal("1e+21", { type: "Edm.Double", value: 1e21 });
    literal("5d", { type: "Edm.Double", value: 5 });
    literal("5.0D", { type: "Edm.Double", value: 5 });
    literal("NaN", { type: "Edm.Double", value: Number.NaN });
    literal("INF", { type: "Edm.Double", value: Number.POSITIVE_INFINITY });
    literal("-INF", { type: "Edm.Double", value: Number.NEGATIVE_INFINITY });
  });

  it("reads strings with doubled quotes", () => {
    literal("''", { type: "Edm.String", value: "" });
    literal("''''", { type: "Edm.String", value: "'" });
    literal("'O''Brien'''", { type: "Edm.String", value: "O'Brien'" });
    literal("'a and (b'", { type: "Edm.String", value: "a and (b" });
  });

  it("reads DateTime to 100 ns, in UTC", () => {
    const ticks = 634881134452000000n;
    literal("datetime'2012-11-10T03:04:05.200Z'", { type: "Edm.DateTime", value: ticks });
    literal("datetime'2012-11-10T03:04:05.2000000Z'", { type: "Edm.DateTime", value: ticks });
    literal("datetime'2012-11-10T03:04:05.2000001'", { type: "Edm.DateTime", value: ticks + 1n });
    literal("datetime'2012-11-10T05:04:05.2+02:00'", { type: "Edm.DateTime", value: ticks });
    literal("datetime'0001-01-01T00:00:00Z'", { type: "Edm.DateTime", value: 0n });
    literal("datetime'9999-12-31T23:59:59.9999999Z'", {
      type: "Edm.DateTime",
      value: 3155378975999999999n,
    });
  });

  it("reads Boolean, Guid and Binary", () => {
    literal("true", { type: "Edm.Boolean", value: true });
    literal("false", { type: "Edm.Boolean", value: false });
    const guid = "debc44d5-1f2c-4b3a-9d8e-0123456789ab";
    literal(`guid'${guid.toUpperCase()}'`, { type: "Edm.Guid", value: guid });
    literal(`Guid'${guid}'`, { type: "Edm.Guid", value: guid });
    literal("X'0102fF'", { type: "Edm.Binary", value: Uint8Array.of(1, 2, 255) });
    literal("binary'0102FF'", { type: "Edm.Binary", value: Uint8Array.of(1, 2, 255) });
    literal("X''", { type: "Edm.Binary", value: new Uint8Array() });
  });

  for (const text of [
    "5m",
    "5lt",
    "5.",
    "1e",
    "1e999",
    "5.5L",
    "1e3L",
    "9223372036854775808",
    "-9223372036854775809L",
    `${"9".repeat(60_000)}L`,
    "'open",
    "'open''",
    "datetime'2012-02-30T00:00:00Z'",
    "datetime'2012-11-10T24:00:00Z'",
    "datetime''",
    "datetime'0001-01-01T00:00:00+01:00'",
    "datetimeoffset'2012-11-10T03:04:05Z'",
    "time'PT1H'",
    "guid'debc44d5'",
    "X'012'",
    "X'0g'",
    "binary 'ff'",
    "guid'0debc44d5-1f2c-4b3a-9d8e-0123456789ab'",
    "5or B",
    "+5",
    "é'x'",
    "\\",
    "@p",
  ]) {
    it(`refuses ${JSON.stringify(text).slice(0, 50)} as a syntax error`, () => {
      const error = refusalOf(`P eq ${text}`);
      assert.equal(error.code, "InvalidInput");
      assert.match(error.message, /^Syntax error at position \d+ in 'P eq /);
    });
  }
});

describe("parseFilter on literals compared with each other", () => {
  it("returns a constant", () => {
    check("1 eq 1", "true");
    check("1 eq 1L or 2 lt 1.5", "true or false");
    check("9007199254740993L gt 9007199254740992.0", "true");
    check("NaN eq NaN", "false");
    check("NaN ne NaN", "true");
    check("false lt true", "true");
    check("'B' lt 'b'", "true");
    check("X'01' lt X'0100'", "true");
    check("X'02' le X'0100'", "false");
    check("X'0a' gt X'09'", "true");
    check("datetime'2020-01-01' ge datetime'2020-01-01T00:00:00.0000001Z'", "false");
  });

  it("refuses types that cannot be compared", () => {
    check("1 eq 'a'", incompatible("Edm.Int32", "Edm.String", "Equal"));
    check("true lt 1.5", incompatible("Edm.Boolean", "Edm.Double", "LessThan"));
  });
});

describe("parseFilter reports the position of the syntax error in", () => {
  for (const [text, position] of [
    ["aaa bbb ccc", 7],
    ["", 0],
    ["   ", 3],
    ["A eq", 4],
    ["A eq ", 5],
    ["A eq 1 eq 2", 9],
    ["(A", 2],
    ["A)", 2],
    ["()", 2],
    ["A and", 5],
    ["and B", 5],
    ["not", 3],
    ["A eq 'x", 7],
    ["A eq 1 B", 8],
    ["A eq #", 5],
    ["A eq 5m", 7],
    ["startswith(A,", 13],
    ["startswith(A 'b')", 16],
    ["startswith(A", 12],
    ["A/B eq 1", 1],
    ["A, B", 2],
    ["A add", 5],
    ["-", 1],
    ["A eq datetime'x'", 16],
  ] as const) {
    it(JSON.stringify(text), () => {
      check(text, `Syntax error at position ${position} in '${text}'.`);
    });
  }
});

describe("parseFilter on types", () => {
  it("refuses a value in place of a condition, naming both operand types", () => {
    check(
      "(PartitionKey ) and (RowKey ge '000050')",
      incompatible("Edm.String", "Edm.Boolean", "And"),
    );
    check("A eq 1 or RowKey", incompatible("Edm.Boolean", "Edm.String", "Or"));
    check("A and B and 5", incompatible("Edm.Boolean", "Edm.Int32", "And"));
    check("A or Timestamp", incompatible("Edm.Boolean", "Edm.DateTime", "Or"));
    check("'a' and 'b'", incompatible("Edm.String", "Edm.String", "And"));
  });

  for (const [operator, kind] of [
    ["eq", "Equal"],
    ["ne", "NotEqual"],
    ["lt", "LessThan"],
    ["le", "LessThanOrEqual"],
    ["gt", "GreaterThan"],
    ["ge", "GreaterThanOrEqual"],
  ] as const) {
    it(`names the operator ${operator} ${kind}`, () => {
      check(`PartitionKey ${operator} 5`, incompatible("Edm.String", "Edm.Int32", kind));
      check(`5L ${operator} RowKey`, incompatible("Edm.Int64", "Edm.String", kind));
      check(`Timestamp ${operator} '2020'`, incompatible("Edm.DateTime", "Edm.String", kind));
    });
  }

  it("refuses a value as the whole filter or under not", () => {
    const whole = "The $filter expression must evaluate to a single boolean value.";
    check("PartitionKey", whole);
    check("5", whole);
    check(
      "not RowKey",
      "A unary operator with an incompatible type was detected. Found operand type 'Edm.String' for operator kind 'Not'.",
    );
  });

  it("accepts values of any type for other properties", () => {
    check("partitionkey eq 5 and Any", "partitionkey eq 5 and Any");
  });

  it("refuses null, comparisons of two properties and comparisons of conditions", () => {
    check("X eq null", INVALID);
    check("null ne X", INVALID);
    check("null", INVALID);
    check("A and null", INVALID);
    check("not null", INVALID);
    check("A eq B", INVALID);
    check("(A eq 1) eq true", INVALID);
    check("true eq (A and B)", INVALID);
  });

  it("reports a syntax error before any other error", () => {
    check("PartitionKey eq 5 and (", "Syntax error at position 23 in 'PartitionKey eq 5 and ('.");
    check("X eq null foo", "Syntax error at position 13 in 'X eq null foo'.");
  });
});

describe("parseFilter on functions and arithmetic", () => {
  for (const text of [
    "startswith(Name, 'a')",
    "substringof('a', Name) eq true",
    "length(Name) gt 5 and A",
    "A or not startswith(tolower(Name),'x')",
    "A add 5 gt 3",
    "A mul B div 2 mod (3 sub 1) eq 0",
    "-A lt 3",
    "A eq -INFINITY",
    "-(5) eq A",
    "year(Timestamp) eq 2020",
  ]) {
    it(`reports that ${text} is not implemented`, () => {
      assert.equal(refusalOf(text).code, "NotImplemented");
    });
  }

  it("refuses an unknown function as invalid", () => {
    check("frobnicate(A)", INVALID);
    check("Startswith(A,'x')", INVALID);
  });
});

describe("parseFilter on hostile text", () => {
  it("accepts nesting up to the limit and refuses more", () => {
    for (const [open, close] of [
      ["(", ")"],
      ["not ", ""],
      ["not (", ")"],
      ["not(A or ", ")"],
    ] as const) {
      const nested = (depth: number) => `${open.repeat(depth)}A eq 1${close.repeat(depth)}`;
      const filter = parseFilter(nested(LIMITS.filterDepthMax));
      assert.deepEqual(parseFilter(printFilter(filter)), filter);
      check(nested(LIMITS.filterDepthMax + 1), "Recursion depth exceeded allowed limit.");
    }
  });

  it("accepts any number of conditions in parentheses side by side", () => {
    const clauses = Array(LIMITS.filterDepthMax + 1).fill("(A eq 1)");
    assert.equal(
      printFilter(parseFilter(clauses.join(" or "))),
      clauses.join(" or ").replace(/[()]/g, ""),
    );
  });

  for (const unit of [
    "(",
    ")",
    "not ",
    "not(",
    "-",
    "-(",
    "year(",
    "((A) or ",
    "'",
    "''",
    ",",
    "A ",
    "5",
    "\ud800",
  ]) {
    it(`refuses 64 KiB of ${JSON.stringify(unit)}`, () => {
      const text = unit.repeat(65_536 / unit.length);
      assert.equal(refusalOf(text).code, "InvalidInput");
    });
  }

  it("parses any text to a filter or refuses it", () => {
    const words = fc.constantFrom(
      ..."( ) ( ) not and or eq ne lt ge add sub - , null true A B PartitionKey Timestamp 1 5L 1.5 'a' '' X'00' guid' datetime' startswith(".split(
        " ",
      ),
    );
    const texts = fc.oneof(
      fc.string(),
      fc.array(words, { maxLength: 30 }).map((list) => list.join(" ")),
    );
    fc.assert(
      fc.property(texts, (text) => {
        try {
          parseFilter(text);
        } catch (error) {
          if (!(error instanceof ServiceError)) throw error;
          assert.ok(error.code === "InvalidInput" || error.code === "NotImplemented");
        }
      }),
      { numRuns: 1000 },
    );
  });
});

describe("parseTableFilter", () => {
  it("reads conditions on TableName", () => {
    const filter = parseTableFilter("TableName ge 'abc' and TableName lt 'abc{'");
    assert.equal(printFilter(filter), "TableName ge 'abc' and TableName lt 'abc{'");
  });

  it("refuses other properties and other types", () => {
    assert.throws(() => parseTableFilter("Name eq 'a'"), { message: INVALID });
    assert.throws(() => parseTableFilter("TableName eq 5"), {
      message: incompatible("Edm.String", "Edm.Int32", "Equal"),
    });
  });
});

type Shape = string | readonly Shape[];

/** `expected` is the filter as printed, or the error message. */
function check(text: string, expected: string, shape?: Shape): void {
  let printed: string;
  try {
    const filter = parseFilter(text);
    printed = printFilter(filter);
    if (shape !== undefined) assert.deepEqual(shapeOf(filter), shape);
  } catch (error) {
    if (!(error instanceof ServiceError)) throw error;
    assert.equal(error.code, "InvalidInput");
    printed = error.message;
  }
  assert.equal(printed, expected);
}

function shapeOf(filter: ReturnType<typeof parseFilter>): Shape {
  if (filter.kind === "and" || filter.kind === "or") {
    return [filter.kind, ...filter.clauses.map(shapeOf)];
  }
  return filter.kind === "not" ? ["not", shapeOf(filter.clause)] : printFilter(filter);
}

function literal(text: string, expected: unknown): void {
  const filter = parseFilter(`P eq ${text}`);
  assert.ok(filter.kind === "comparison");
  assert.deepEqual(filter.literal, expected);
}

function refusalOf(text: string): ServiceError {
  try {
    parseFilter(text);
  } catch (error) {
    assert.ok(error instanceof ServiceError, String(error));
    return error;
  }
  assert.fail(`${text.slice(0, 100)} was accepted.`);
}

function incompatible(left: string, right: string, kind: string): string {
  return `A binary operator with incompatible types was detected. Found operand types '${left}' and '${right}' for operator kind '${kind}'.`;
}
