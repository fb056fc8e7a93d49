import assert from "node:assert/strict";
import { describe, it } from "node:test";
import fc from "fast-check";
import { blobAuth, tableAuth } from "./dialect.ts";
import { authenticate, contextAt, refusalOf, sign, sketchRequest } from "./test-request.ts";

const DATE = "Wed, 06 Jan 2021 01:01:30 GMT";
const NOW = "2021-01-06T01:01:30Z";

describe("a change to any single signed character", () => {
  const ALPHABET = [..."abcXYZ019/='%20-_.~"].join("");
  const part = fc.string({
    unit: fc.constantFrom(..."abcXYZ019-_.~"),
    minLength: 1,
    maxLength: 12,
  });

  it("invalidates the Shared Key signature of a table request", () => {
    fc.assert(
      fc.property(
        part,
        part,
        part,
        fc.nat(),
        fc.constantFrom(...ALPHABET),
        (path, md5, type, at, to) => {
          const parts = ["PUT", `/devstoreaccount1/${path}`, md5, type, DATE] as const;
          const signature = sign(
            `${parts[0]}\n${md5}\n${type}\n${DATE}\n/devstoreaccount1${parts[1]}`,
          );
          const attempt = ([verb, rawPath, contentMd5, contentType, date]: readonly string[]) =>
            authenticate(
              sketchRequest(`${verb} ${rawPath}`, {
                headers: {
                  "Content-MD5": contentMd5!,
                  "Content-Type": contentType!,
                  "x-ms-date": date!,
                  Authorization: `SharedKey devstoreaccount1:${signature}`,
                },
              }),
              tableAuth,
              contextAt(NOW),
            );
          assert.deepEqual(attempt(parts), { kind: "shared-key" });
          const changed = changeOne(parts, at, to);
          // A path whose escapes are broken by the change cannot be read at all.
          if (changed) {
            assert.match(
              refusalOf(() => attempt(changed)).code,
              /^(AuthenticationFailed|RequestUrlFailedToParse)$/,
            );
          }
        },
      ),
    );
  });

  it("invalidates the Shared Key signature of a queue or blob request", () => {
    fc.assert(
      fc.property(
        part,
        part,
        part,
        part,
        fc.nat(),
        fc.constantFrom(..."abcdxyz0129"),
        (...drawn) => {
          const [path, name, value, parameter, at, to] = drawn;
          const meta = name.toLowerCase();
          const query = parameter.toLowerCase();
          const parts = [
            "PUT",
            `/devstoreaccount1/${path}`,
            meta,
            value,
            query,
            value,
            "5",
          ] as const;
          const attempt = (sent: readonly string[], signature: string) =>
            authenticate(
              sketchRequest(`${sent[0]} ${sent[1]}?${sent[4]}=${sent[5]}`, {
                headers: {
                  "x-ms-date": DATE,
                  [`X-Ms-Meta-${sent[2]}`]: sent[3]!,
                  "Content-Length": sent[6]!,
                  Authorization: `SharedKey devstoreaccount1:${signature}`,
                },
              }),
              blobAuth,
              contextAt(NOW),
            );
          const signature = sign(
            `PUT\n\n\n5\n\n\n\n\n\n\n\n\nx-ms-date:${DATE}\nx-ms-meta-${meta}:${value}\n/devstoreaccount1${parts[1]}\n${query}:${value}`,
          );
          assert.deepEqual(attempt(parts, signature), { kind: "shared-key" });
          const changed = changeOne(parts, at, to);
          if (changed) {
            assert.equal(refusalOf(() => attempt(changed, signature)).code, "AuthenticationFailed");
          }
        },
      ),
    );
  });

  it("invalidates a SAS, even one that was accepted before", () => {
    fc.assert(
      fc.property(
        part,
        part,
        fc.nat(),
        fc.constantFrom(..."abcXYZ019"),
        (table, startKey, at, to) => {
          const signature = sign(
            `raud\n2021-01-01\n2022-01-01\n/table/devstoreaccount1/${table.toLowerCase()}\nid\n0.0.0.0-255.255.255.255\nhttps,http\n2019-02-02\n${startKey}\n\nz\n1`,
          );
          const parts = [
            `tn=${table}`,
            "sp=raud",
            "st=2021-01-01",
            "se=2022-01-01",
            "si=id",
            "sip=0.0.0.0-255.255.255.255",
            "spr=https,http",
            "sv=2019-02-02",
            `spk=${startKey}`,
            "epk=z",
            "erk=1",
          ];
          const attempt = (sent: readonly string[]) =>
            authenticate(
              sketchRequest(
                `GET /devstoreaccount1/x?${sent.join("&")}&sig=${encodeURIComponent(signature)}`,
                {
                  location: { resource: "service", name: "" },
                },
              ),
              tableAuth,
              contextAt(NOW, { storedPolicy: () => ({ id: "id" }) }),
            );
          assert.ok(attempt(parts));
          const changed = changeOne(parts, at, to);
          if (changed) assert.equal(refusalOf(() => attempt(changed)).code, "AuthenticationFailed");
        },
      ),
    );
  });
});

/** Replaces one character of one part; undefined if the change would make no difference. */
function changeOne(parts: readonly string[], at: number, to: string): string[] | undefined {
  const text = parts.join("\n");
  const index = at % text.length;
  if (text[index] === "\n" || text[index]!.toLowerCase() === to.toLowerCase()) return undefined;
  return (text.slice(0, index) + to + text.slice(index + 1)).split("\n");
}
