import assert from "node:assert/strict";
import { after, describe, it } from "node:test";
import type { HttpAnswer } from "./http-answer.ts";
import { assertRefused } from "./refusals.ts";
import { WireTarget } from "./table-target.ts";
import { TableWire } from "./table-wire.ts";

const target = await WireTarget.open();
after(() => target.close());
const { wire } = target;
const table = await target.table();

let rows = 0;
const STALE = `W/"datetime'2012-06-15T22%3A51%3A44.9662825Z'"`;

/** Inserts an entity; returns its address and its ETag. */
async function entity(): Promise<{ path: string; etag: string }> {
  const RowKey = `row${rows++}`;
  const answer = await wire.send("POST", `/${table}`, { body: { PartitionKey: "p", RowKey } });
  return { path: `/${table}(PartitionKey='p',RowKey='${RowKey}')`, etag: answer.header("etag")! };
}

function write(method: string, path: string, headers: Record<string, string>): Promise<HttpAnswer> {
  return wire.send(method, path, { headers, body: method === "DELETE" ? undefined : { n: 1 } });
}

for (const method of ["PUT", "MERGE", "PATCH", "DELETE"]) {
  describe(`${method} with a condition`, () => {
    it("succeeds with the current ETag, however its time is written", async () => {
      const spellings: readonly ((etag: string) => string)[] = [
        (etag) => etag,
        (etag) => etag.replaceAll("%3A", ":"),
        (etag) => etag.replaceAll("%3A", "%3a"),
        (etag) => etag.replaceAll("'", "%27"),
        (etag) =>
          etag.replace(/(\.\d+)?Z/, (all) =>
            `${all.includes(".") ? all.slice(0, -1) : "."}0Z`.replace(".0Z", ".00Z"),
          ),
        (etag) => ` ${etag} `,
        () => "*",
      ];
      for (const spell of spellings) {
        const { path, etag } = await entity();
        const answer = await write(method, path, { "If-Match": spell(etag) });
        assert.equal(answer.status, 204, `${spell(etag)} ${answer}`);
      }
    });

    it("is refused with another ETag, and changes nothing", async () => {
      const { path, etag } = await entity();
      for (const other of [STALE, 'W/"abc"', `W/"datetime'soon'"`, 'W/""']) {
        assertRefused(await write(method, path, { "If-Match": other }), {
          status: 412,
          code: "UpdateConditionNotSatisfied",
          message: "The update condition specified in the request was not satisfied.",
        });
      }
      assert.equal((await wire.send("GET", path)).header("etag"), etag);
    });

    it("is refused for a missing entity, whatever the ETag", async () => {
      const path = `/${table}(PartitionKey='p',RowKey='none')`;
      for (const condition of ["*", STALE]) {
        assertRefused(await write(method, path, { "If-Match": condition }), {
          status: 404,
          code: "ResourceNotFound",
        });
      }
    });

    it("is refused with a malformed ETag", async () => {
      const { path, etag } = await entity();
      for (const malformed of [
        '"abc"',
        "abc",
        "W/abc",
        `${etag}, ${STALE}`,
        'W/"a" W/"b"',
        'W/"',
      ]) {
        assertRefused(await write(method, path, { "If-Match": malformed }), {
          status: 400,
          code: "InvalidInput",
          message: `The etag value '${malformed}' specified in one of the request headers is not valid. Please make sure only one etag value is specified and is valid.`,
        });
      }
      assert.equal((await wire.send("GET", path)).header("etag"), etag);
    });

    it("is refused with two ETags, in any order", async () => {
      const { path, etag } = await entity();
      for (const [first, last] of [
        [STALE, "*"],
        ["*", STALE],
        [etag, etag],
      ] as const) {
        assertRefused(await write(method, path, { "If-Match": first, "if-match": last }), {
          status: 400,
          code: "InvalidInput",
          message: `The etag value '${first}, ${last}' specified in one of the request headers is not valid. Please make sure only one etag value is specified and is valid.`,
        });
      }
      assert.equal((await wire.send("GET", path)).header("etag"), etag);
    });

    it("is refused with If-None-Match", async () => {
      const { path, etag } = await entity();
      const verb = method === "DELETE" ? "DELETE" : "PUT";
      assertRefused(await write(method, path, { "If-None-Match": "*" }), {
        status: 400,
        code: "InvalidInput",
        message: `If-None-Match HTTP header cannot be specified for ${verb} operations.`,
      });
      assertRefused(await write(method, path, { "If-None-Match": "*", "If-Match": etag }), {
        status: 400,
        code: "InvalidInput",
        message:
          "Both If-Match and If-None-Match HTTP headers cannot be specified at the same time. Please specify either one of the headers or none of them.",
      });
    });

    it("succeeds for exactly one of several concurrent requests", async () => {
      const { path, etag } = await entity();
      const clients = Array.from({ length: 8 }, () => new TableWire(target));
      const answers = await Promise.all(
        clients.map((client) =>
          client.send(method, path, {
            headers: { "If-Match": etag },
            body: method === "DELETE" ? undefined : { n: 1 },
          }),
        ),
      );
      const winners = answers.filter(({ status }) => status === 204);
      assert.equal(winners.length, 1);
      for (const answer of answers) {
        if (answer.status === 204) continue;
        // After a delete, no entity is left to compare the ETag with.
        const code = method === "DELETE" ? "ResourceNotFound" : "UpdateConditionNotSatisfied";
        assertRefused(answer, { status: method === "DELETE" ? 404 : 412, code });
      }
      for (const client of clients) client.close();
    });
  });
}

it("An entity deleted and inserted again has a new ETag", async () => {
  const { path, etag } = await entity();
  await write("DELETE", path, { "If-Match": etag });
  await write("PUT", path, {});
  assertRefused(await write("PUT", path, { "If-Match": etag }), {
    status: 412,
    code: "UpdateConditionNotSatisfied",
  });
});

it("Exactly one of several concurrent inserts of an entity succeeds", async () => {
  const clients = Array.from({ length: 8 }, () => new TableWire(target));
  const body = { PartitionKey: "p", RowKey: `contested${rows++}` };
  const answers = await Promise.all(
    clients.map((client) => client.send("POST", `/${table}`, { body })),
  );
  assert.deepEqual(answers.map(({ status }) => status).sort(), [201, ...Array(7).fill(409)]);
  for (const client of clients) client.close();
});

it("Concurrent merges of an entity all succeed, and none undoes another", async () => {
  const { path } = await entity();
  const clients = Array.from({ length: 16 }, () => new TableWire(target));
  const answers = await Promise.all(
    clients.map((client, i) => client.send("MERGE", path, { body: { [`by${i}`]: i } })),
  );
  assert.deepEqual(new Set(answers.map(({ status }) => status)), new Set([204]));
  const found = (await wire.send("GET", path)).json() as Record<string, unknown>;
  for (let i = 0; i < clients.length; i++) assert.equal(found[`by${i}`], i);
  for (const client of clients) client.close();
});
