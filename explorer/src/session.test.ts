import assert from "node:assert/strict";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { it } from "node:test";
import { readEntities, ServerError, wholeOrLost } from "./session.ts";

it("A server that is lost in the middle of its answer is lost, and one that answers nonsense is another", async () => {
  const server = createServer((request, response) => {
    response.writeHead(200, { "Content-Length": "100" });
    if (request.url === "/broken") response.write("{", () => response.destroy());
    else response.end("<html>".padEnd(100));
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as AddressInfo;
  const codeOf = async (path: string, read: "text" | "json" | "blob") => {
    const answer = wholeOrLost(await fetch(`http://127.0.0.1:${port}${path}`), "here");
    const failure = await answer[read]().catch((error: unknown) => error);
    return failure instanceof ServerError ? [failure.status, failure.code] : failure;
  };
  for (const read of ["text", "json", "blob"] as const)
    assert.deepEqual(await codeOf("/broken", read), [0, "NoAnswer"]);
  assert.deepEqual(await codeOf("/other", "json"), [200, "UnreadableAnswer"]);
  assert.equal(await codeOf("/other", "text"), "<html>".padEnd(100));
  const other = wholeOrLost(await fetch(`http://127.0.0.1:${port}/other`), "here");
  await assert.rejects(readEntities(other), { status: 200, code: "UnreadableAnswer" });
  const stop = new AbortController();
  const stopped = wholeOrLost(
    await fetch(`http://127.0.0.1:${port}/other`, { signal: stop.signal }),
    "here",
  );
  stop.abort();
  await assert.rejects(stopped.text(), { name: "AbortError" });
  server.close();
});
