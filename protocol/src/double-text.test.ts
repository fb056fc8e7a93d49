import assert from "node:assert/strict";
import { it } from "node:test";
import fc from "fast-check";
import { isPrintedDouble, printDouble } from "./double-text.ts";

it("A double always prints with a point or an exponent", () => {
  check(3, "3.0");
  check(-20, "-20.0");
  check(123.45, "123.45");
  check(0, "0.0");
  check(-0, "0.0");
});

it("A large or small double prints with an exponent of at least two digits", () => {
  check(1.23456789012346e24, "1.23456789012346E+24");
  check(1e14, "100000000000000.0");
  check(1e15, "1E+15");
  check(-1e15, "-1E+15");
  check(0.0001, "0.0001");
  check(0.00001, "1E-05");
  check(-1.5e-7, "-1.5E-07");
  check(1e100, "1E+100");
});

it("A double prints with fifteen digits if they are exact, otherwise with seventeen", () => {
  check(0.1, "0.1");
  check(0.1 + 0.2, "0.30000000000000004");
  check(1 / 3, "0.33333333333333331");
  check(2 / 7, "0.2857142857142857"); // The seventeenth digit is a zero.
  check(1234567890123456, "1.234567890123456E+15");
  check(1234567890123456.5, "1.2345678901234565E+15");
  check(-2 / 3, "-0.66666666666666663");
  check(0.02 / 3, "0.0066666666666666671");
  check(0.1 + 0.7, "0.79999999999999993");
  check(987654321.1234567, "987654321.12345672");
  check(123456789.01234566, "123456789.01234566");
  check(-500000000000000.06, "-500000000000000.06");
  check(12345678901234.5, "12345678901234.5");
  check(-12345678.1234502, "-12345678.1234502");
  check(0.123456789012314, "0.123456789012314");
  check(999999999999999.9, "999999999999999.88");
  check(Number.MAX_VALUE, "1.7976931348623157E+308");
  check(Number.MIN_VALUE, "4.94065645841247E-324");
});

it("A printed double reads back as the same number, and never as an Edm.Int32", () => {
  fc.assert(
    fc.property(fc.double({ noNaN: true, noDefaultInfinity: true }), (value) => {
      const text = printDouble(value);
      assert.equal(Number(text), value + 0);
      assert.match(text, /[.E]/);
      const digits = text.replace(/E.*/, "").replace(/[-.]/g, "").replace(/^0+/, "");
      const fifteen = Number(value.toPrecision(15)) === value;
      assert.ok(digits.length <= (fifteen ? 16 : 17), text); // One may be the zero of `.0`.
    }),
  );
});

it("A double of ordinary size prints the digits of its scientific notation", () => {
  fc.assert(
    fc.property(fc.double({ min: 1e-4, max: 1e15, maxExcluded: true, noNaN: true }), (value) => {
      const fifteen = value.toExponential(14);
      const exact = Number(fifteen) === value ? fifteen : value.toExponential(16);
      const digits = exact.replace(/e.*/, "").replace(".", "").replace(/0+$/, "");
      const printed = printDouble(value).replace(".", "").replace(/^0+/, "").replace(/0+$/, "");
      assert.equal(printed, digits);
    }),
    { numRuns: 2000 },
  );
});

it("The text of a printed double is recognized as such", () => {
  for (const text of ["3.0", "-3.1", "0.0", "0.5", "-0.5", "0.0001", "10.0", "1234567.12345678"]) {
    assert.equal(isPrinted(text), true, text);
  }
});

it("No other text is recognized as a printed double", () => {
  for (const text of ["3", "3.10", "-0.0", "0.00001", "0.00009", "1e5", "1.5e3", "1.50"]) {
    assert.equal(isPrinted(text), false, text);
  }
  const digits = fc.stringMatching(/^-?(0|[1-9][0-9]{0,17})(\.[0-9]{1,19})?(e-?[0-9]{1,2})?$/);
  fc.assert(
    fc.property(digits, (text) => {
      if (isPrinted(text)) assert.equal(printDouble(Number(text)), text);
    }),
  );
});

function check(value: number, expected: string): void {
  assert.equal(printDouble(value), expected);
}

function isPrinted(text: string): boolean {
  const bytes = new TextEncoder().encode(`:${text},`);
  return isPrintedDouble(bytes, 1, bytes.length - 1);
}
