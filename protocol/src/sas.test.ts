import assert from "node:assert/strict";
import { describe, it } from "node:test";
import fc from "fast-check";
import {
  accountSasString,
  blobSasString,
  parseIpRange,
  parseIpv4,
  parseSas,
  queueSasString,
  tableSasString,
} from "./sas.ts";

/** Each parameter's value is its own name, so that a string shows which parameter is where. */
function sas(sv: string) {
  const names =
    "ss srt sr sp st se si sip spr ses tn spk srk epk erk rscc rscd rsce rscl rsct sig".split(" ");
  return parseSas([["sv", sv], ...names.map((name) => [name, name] as const)]);
}

const spaced = (text: string) => text.replaceAll("\n", " ");

describe("The string that a token signs", () => {
  const cases: [version: string, table: string, queue: string, blob: string][] = [
    [
      "2012-02-12",
      "sp st se /acct/tn si 2012-02-12 spk srk epk erk",
      "sp st se /acct/q si 2012-02-12",
      "sp st se /acct/c/b si 2012-02-12",
    ],
    [
      "2013-08-15",
      "sp st se /acct/tn si 2013-08-15 spk srk epk erk",
      "sp st se /acct/q si 2013-08-15",
      "sp st se /acct/c/b si 2013-08-15 rscc rscd rsce rscl rsct",
    ],
    [
      "2015-02-21",
      "sp st se /table/acct/tn si 2015-02-21 spk srk epk erk",
      "sp st se /queue/acct/q si 2015-02-21",
      "sp st se /blob/acct/c/b si 2015-02-21 rscc rscd rsce rscl rsct",
    ],
    [
      "2015-04-05",
      "sp st se /table/acct/tn si sip spr 2015-04-05 spk srk epk erk",
      "sp st se /queue/acct/q si sip spr 2015-04-05",
      "sp st se /blob/acct/c/b si sip spr 2015-04-05 rscc rscd rsce rscl rsct",
    ],
    [
      "2018-11-09",
      "sp st se /table/acct/tn si sip spr 2018-11-09 spk srk epk erk",
      "sp st se /queue/acct/q si sip spr 2018-11-09",
      "sp st se /blob/acct/c/b si sip spr 2018-11-09 sr  rscc rscd rsce rscl rsct",
    ],
    [
      "2020-12-06",
      "sp st se /table/acct/tn si sip spr 2020-12-06 spk srk epk erk",
      "sp st se /queue/acct/q si sip spr 2020-12-06",
      "sp st se /blob/acct/c/b si sip spr 2020-12-06 sr  ses rscc rscd rsce rscl rsct",
    ],
  ];
  for (const [version, table, queue, blob] of cases) {
    it(`is that of version ${version}`, () => {
      assert.equal(spaced(tableSasString("acct", sas(version))), table);
      assert.equal(spaced(queueSasString("acct", "q", sas(version))), queue);
      assert.equal(spaced(blobSasString("acct", "c/b", sas(version))), blob);
    });
  }

  it("changes on the exact day of a version", () => {
    const scoped = (sv: string) => accountSasString("acct", sas(sv)).includes("\nses\n");
    assert.deepEqual(
      [scoped("2020-12-05"), scoped("2020-12-06"), scoped("2099-01-01")],
      [false, true, true],
    );
  });

  it("ends in a line feed for an account", () => {
    assert.equal(
      accountSasString("acct", sas("2015-04-05")),
      "acct\nsp\nss\nsrt\nst\nse\nsip\nspr\n2015-04-05\n",
    );
    assert.equal(
      accountSasString("acct", sas("2026-04-06")),
      "acct\nsp\nss\nsrt\nst\nse\nsip\nspr\n2026-04-06\nses\n",
    );
  });

  it("has the table in lower case, and absent fields as empty lines", () => {
    const token = parseSas([
      ["sv", "2019-02-02"],
      ["tn", "PeoPle"],
    ]);
    assert.equal(
      tableSasString("acct", token),
      "\n\n\n/table/acct/people\n\n\n\n2019-02-02\n\n\n\n",
    );
  });
});

describe("The parameters of a token", () => {
  it("are recognized in any case, the first non-empty one of a name", () => {
    const token = parseSas([
      ["SP", ""],
      ["Sp", "r"],
      ["sp", "w"],
      ["other", "x"],
      ["__proto__", "y"],
    ]);
    assert.equal(token.sp, "r");
    assert.equal(token.se, undefined);
    assert.ok(!("other" in token));
  });

  it("distinguish empty from absent for the partition keys only", () => {
    const token = parseSas([
      ["spk", ""],
      ["srk", ""],
      ["erk", ""],
      ["sip", ""],
      ["tn", ""],
    ]);
    assert.deepEqual(
      [token.spk, token.epk, token.srk, token.erk, token.sip, token.tn],
      ["", undefined, undefined, undefined, undefined, undefined],
    );
  });
});

describe("An IPv4 address", () => {
  it("is parsed to a number that sorts as addresses do", () => {
    const byte = fc.nat(255);
    fc.assert(
      fc.property(byte, byte, byte, byte, (a, b, c, d) => {
        const expected = ((a * 256 + b) * 256 + c) * 256 + d;
        assert.equal(parseIpv4(`${a}.${b}.${c}.${d}`), expected);
        assert.equal(parseIpv4(`::FFFF:${a}.${b}.${c}.${d}`), expected);
      }),
    );
  });

  it("is no other text", () => {
    for (const text of [
      "",
      "1.2.3",
      "1.2.3.4.5",
      "1.2.3.256",
      "1.2.3.-4",
      "a.b.c.d",
      "::1",
      "1.2.3.4 ",
      "1..2.3",
    ]) {
      assert.equal(parseIpv4(text), undefined);
    }
  });

  it("may be alone or start a range that does not end before it", () => {
    assert.deepEqual(parseIpRange("0.0.0.5"), { first: 5, last: 5 });
    assert.deepEqual(parseIpRange("0.0.0.5-0.0.1.0"), { first: 5, last: 256 });
    for (const text of ["0.0.0.5-0.0.0.4", "0.0.0.5-", "-0.0.0.5", "0.0.0.1-0.0.0.2-0.0.0.3"]) {
      assert.equal(parseIpRange(text), undefined);
    }
  });
});
