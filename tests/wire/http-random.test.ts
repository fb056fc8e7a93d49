import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import fc from "fast-check";
import type { HttpAnswer } from "./http-answer.ts";
import { HttpConnection } from "./http-connection.ts";
import { type LocalServer, startLocalServer } from "./local-server.ts";
import { readRefusal } from "./refusals.ts";
import { BATCH_TYPE, changeset, readBatch } from "./table-batch.ts";
import { TableWire } from "./table-wire.ts";

/*
 * For any input: an answer of the service or of HTTP, never a 5xx, never silence, never a crash. fast-check
 * prints the seed of a failure.
 */

const KEY =
  "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw==";
/** No answer takes this long, even on the busiest machine. */
const HANG_MS = 60_000;
/** How much longer than usual to search. */
const times = Number(process.env.FUZZ_TIMES ?? 1);
const bytes = fc.uint8Array({ maxLength: 300 });
/** Text that HTTP allows as a target or value, except spaces. */
const visible = fc.string({
  unit: fc.integer({ min: 0x21, max: 0x7e }).map((code) => String.fromCharCode(code)),
  maxLength: 40,
});

for (const lane of ["node", "fast"] as const) {
  describe(`A server that receives random input (${lane})`, () => {
    let server: LocalServer;
    let wire: TableWire;
    const faults: unknown[] = [];
    before(async () => {
      server = await startLocalServer({ lane, onError: (error) => faults.push(error) });
      wire = new TableWire({
        url: `${server.url}/devstoreaccount1`,
        account: "devstoreaccount1",
        key: KEY,
      });
      await wire.send("POST", "/Tables", { body: { TableName: "People" } });
      await wire.send("POST", "/People", { body: { PartitionKey: "p", RowKey: "r" } });
    });
    after(async () => {
      assert.deepEqual(faults, []);
      assert.equal((await wire.send("GET", "/People(PartitionKey='p',RowKey='r')")).status, 200);
      wire.close();
      await server.close();
    });

    it("answers random bytes with a 4xx status or nothing", async () => {
      const start = fc.constantFrom(
        "",
        "GET ",
        "GET / HTTP/1.1\r\n",
        "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: ",
        "\r\n",
        "\u0016\u0003\u0001",
      );
      await fc.assert(
        fc.asyncProperty(start, bytes, fc.boolean(), async (text, random, ends) => {
          const said = await exchange(Buffer.concat([Buffer.from(text, "latin1"), random]), ends);
          assert.match(said, /^(HTTP\/1\.1 4\d\d |$)/);
        }),
        { numRuns: 300 * times },
      );
    });

    it("answers random targets with success or a well-formed error", async () => {
      const segment = fc.oneof(
        visible,
        fc.constantFrom(
          "Tables",
          "People",
          "$batch",
          "(",
          ")",
          "()",
          "'",
          "''",
          "PartitionKey='p'",
          ",",
          "RowKey='",
          "/",
          "%2F",
          "%",
          "%27",
          "%C3%A9",
          "%FF",
          "#",
          "?",
          "&",
          "=",
          "$filter=",
          "$top=",
          "$select=",
          "comp=",
          "acl",
          "restype=service",
          "NextPartitionKey=1!4!",
          "sv=2019-02-02",
          "sig=",
          "sp=r",
          "timeout=",
        ),
      );
      const method = fc.constantFrom("GET", "PUT", "POST", "DELETE", "MERGE", "PATCH", "OPTIONS");
      await fc.assert(
        fc.asyncProperty(
          method,
          fc.array(segment, { maxLength: 8 }),
          fc.boolean(),
          async (verb, parts, signs) => {
            const as = signs ? ({ kind: "shared-key-lite" } as const) : ({ kind: "none" } as const);
            assertAnswer(
              await wire.send(verb, `/${parts.join("")}`, {
                as,
                body: verb === "PUT" ? {} : undefined,
              }),
            );
          },
        ),
        { numRuns: 500 * times },
      );
    });

    it("answers random headers with success, or a well-formed error that changed nothing", async () => {
      const name = fc.constantFrom(
        "Accept",
        "Content-Type",
        "If-Match",
        "If-None-Match",
        "Prefer",
        "x-ms-version",
        "x-ms-date",
        "x-ms-client-request-id",
        "DataServiceVersion",
        "MaxDataServiceVersion",
        "Authorization",
        "Origin",
        "X-HTTP-Method",
        "Content-MD5",
        "Host",
        "Cookie",
      );
      const value = fc.oneof(
        visible,
        fc.constantFrom(
          "",
          "*",
          "*/*",
          "application/json;odata=",
          "application/atom+xml",
          "W/\"datetime'",
          "SharedKey devstoreaccount1:",
          "Bearer a.b.c",
          "return-content",
          "2019-02-02",
          "multipart/mixed; boundary=",
          "MERGE",
        ),
      );
      const path = fc.constantFrom(
        "/People",
        "/Tables",
        "/People(PartitionKey='p',RowKey='x')",
        "/$batch",
        "/People?comp=acl",
        "/?restype=service&comp=properties",
      );
      let bodies = 0;
      // Valid, so that only the headers can be refused.
      const bodyFor = (target: string) => {
        bodies++;
        if (target === "/Tables") return { TableName: `Random${bodies}` };
        return target === "/People" ? { PartitionKey: "headers", RowKey: `${bodies}` } : {};
      };
      await fc.assert(
        fc.asyncProperty(
          path,
          fc.constantFrom("GET", "PUT", "POST", "DELETE"),
          fc.dictionary(name, value, { maxKeys: 4 }),
          async (target, verb, headers) => {
            const body = verb === "PUT" || verb === "POST" ? bodyFor(target) : undefined;
            const before = await stored();
            const answer = await wire.send(verb, target, { headers, body });
            assertAnswer(answer);
            if (verb === "GET" || answer.status >= 400) {
              assert.equal(await stored(), before, String(answer));
            }
          },
        ),
        { numRuns: 500 * times },
      );
    });

    it("answers random bodies with success and stores them, or with a well-formed error that changed nothing", async () => {
      const member = fc.tuple(
        fc.oneof(
          visible,
          fc.string({ maxLength: 8 }),
          fc.constantFrom("PartitionKey", "RowKey", "Timestamp", "a", "a@odata.type", "odata.etag"),
        ),
        fc.oneof(
          fc.jsonValue({ maxDepth: 2 }),
          fc.constantFrom("p", "Edm.Int64", "Edm.Guid", "Edm.DateTime", 1.5, null),
        ),
      );
      const object = fc
        .array(member, { maxLength: 6 })
        .map(
          (members) =>
            `{${members.map(([key, value]) => `${JSON.stringify(key)}:${JSON.stringify(value)}`).join()}}`,
        );
      const value = fc.oneof(
        fc.string({ unit: "binary" }),
        fc.boolean(),
        fc.integer(),
        fc.double(),
      );
      const key = (usual: string) => fc.oneof(fc.constant(usual), fc.string({ maxLength: 4 }));
      const entity = fc
        .record(
          { PartitionKey: key("p"), RowKey: key("fuzz"), a: value, b: value, _c: value },
          { requiredKeys: [] },
        )
        .map((entity) => JSON.stringify(entity));
      const cut = fc.tuple(object, fc.nat(60)).map(([text, end]) => text.slice(0, end));
      await fc.assert(
        fc.asyncProperty(fc.oneof(object, entity, cut, fc.string(), bytes), async (body) => {
          const inserted = await wire.send("POST", "/People", { body });
          assertAnswer(inserted);
          if (inserted.status === 201) {
            const path = inserted.header("location")!.slice(wire.url.href.length);
            assertStores(await wire.send("GET", path), body);
          }
          const fuzz = "/People(PartitionKey='p',RowKey='fuzz')";
          const before = await stored();
          const put = await wire.send("PUT", fuzz, { body });
          assertAnswer(put);
          if (put.status === 204) assertStores(await wire.send("GET", fuzz), body);
          else assert.equal(await stored(), before, String(put));
          assertAnswer(await wire.send("POST", "/Tables", { body }));
        }),
        { numRuns: 300 * times },
      );
    });

    it("answers damaged batches and documents with success or a well-formed error, and applies no partial batch", async () => {
      // Random entities may be in the other table, in this very partition.
      await wire.send("POST", "/Tables", { body: { TableName: "Batches" } });
      const batch = changeset([
        { method: "PUT", path: "/Batches(PartitionKey='b',RowKey='1')", body: {} },
        { method: "PUT", path: "/Batches(PartitionKey='b',RowKey='2')", body: {} },
      ]);
      const xml =
        "<StorageServiceProperties><Cors><CorsRule><AllowedMethods>GET</AllowedMethods></CorsRule></Cors></StorageServiceProperties>";
      const damage = (whole: string) =>
        fc
          .tuple(
            fc.nat(whole.length),
            fc.nat(20),
            fc.oneof(
              fc.string(),
              fc.constantFrom(
                "",
                "\r\n",
                "--batch_1",
                "--changeset_1--",
                "<!DOCTYPE a>",
                "&x;",
                "</",
                "<![CDATA[",
              ),
            ),
          )
          .map(([at, length, text]) => whole.slice(0, at) + text + whole.slice(at + length));
      await fc.assert(
        fc.asyncProperty(damage(batch), damage(xml), async (body, document) => {
          const answer = await wire.send("POST", "/$batch", {
            body,
            headers: { "Content-Type": BATCH_TYPE },
          });
          assertAnswer(answer);
          const list = await wire.send("GET", "/Batches?$filter=PartitionKey%20eq%20'b'");
          // Both writes or neither: a batch is never applied in part, whatever it contained.
          if (answer.status !== 202 || readBatch(answer).some(({ status }) => status >= 400)) {
            assert.deepEqual(list.items(), [], body);
          }
          for (const { PartitionKey, RowKey } of list.items()) {
            const path = `/Batches(PartitionKey='${PartitionKey}',RowKey='${encodeURIComponent(String(RowKey)).replaceAll("'", "''")}')`;
            assert.equal(
              (await wire.send("DELETE", path, { headers: { "If-Match": "*" } })).status,
              204,
            );
          }
          assertAnswer(
            await wire.send("PUT", "/?restype=service&comp=properties", { body: document }),
          );
          assertAnswer(await wire.send("PUT", "/People?comp=acl", { body: document }));
        }),
        { numRuns: 200 * times },
      );
    });

    /** What the requests with random headers and bodies could change. */
    async function stored(): Promise<string> {
      const paths = ["/Tables", "/People", "/People?comp=acl", "/?restype=service&comp=properties"];
      const answers: string[] = [];
      for (const path of paths) answers.push((await wire.send("GET", path)).text);
      return answers.join("\n");
    }

    /** All that a server sends in answer to these bytes; a server that neither answers nor closes has hung. */
    async function exchange(sent: Uint8Array, ends: boolean): Promise<string> {
      const connection = await HttpConnection.open(new URL(server.url));
      connection.write(sent);
      let hung = false;
      const guard = setTimeout(() => {
        hung = true;
        connection.destroy();
      }, HANG_MS);
      if (!ends) await new Promise((resolve) => setImmediate(resolve));
      connection.end();
      const said = await connection.rest();
      clearTimeout(guard);
      connection.destroy();
      assert.equal(hung, false, "The server hung.");
      return said.toString("latin1");
    }
  });
}

/** Checks that an entity has the properties of this body whose JSON determines their type. */
function assertStores(answer: HttpAnswer, body: string | Uint8Array): void {
  assert.equal(answer.status, 200, String(answer));
  const entity = answer.json() as Record<string, unknown>;
  const sent: Record<string, unknown> = JSON.parse(Buffer.from(body as string).toString());
  for (const [name, value] of Object.entries(sent)) {
    if (/@|^odata\.|^(PartitionKey|RowKey|Timestamp)$/.test(name) || `${name}@odata.type` in sent) {
      continue;
    }
    assert.deepEqual(entity[name], value ?? undefined, name);
  }
}

/** Success, or a refusal in a form of the service. 501 means that a known feature is missing. */
function assertAnswer(answer: HttpAnswer): void {
  assert.equal(answer.status < 500 || answer.status === 501, true, String(answer));
  if (answer.status < 400) return;
  // node:http refuses malformed HTTP with a bare status.
  if (answer.header("x-ms-request-id") === undefined)
    assert.equal(answer.body.length, 0, String(answer));
  else assert.equal(readRefusal(answer).code, answer.header("x-ms-error-code"));
}
