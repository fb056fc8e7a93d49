import assert from "node:assert/strict";
import { Agent, request } from "node:http";
import { describe, it } from "node:test";
import { withServer } from "./watched-server.ts";

for (const lane of ["fast", "node"] as const) {
  describe(`Observers of the ${lane} lane`, () => {
    it("learn which request opened a connection, even if node:http takes the connection over", async () => {
      const opened: boolean[] = [];
      const observer = {
        finished: (_: unknown, sender: { opensConnection: boolean }) =>
          opened.push(sender.opensConnection),
      };
      await withServer({ lane, observer }, async ({ accountUrl }) => {
        for (let client = 0; client < 2; client++) {
          const agent = new Agent({ keepAlive: true, maxSockets: 1 });
          await ask(agent, `${accountUrl}/Tables`, {});
          // A request of a kind that the fast lane does not read.
          await ask(agent, `${accountUrl}/Tables`, { "X-Latin": "\u00e9" });
          await ask(agent, `${accountUrl}/Tables`, {});
          agent.destroy();
        }
      });
      assert.deepEqual(opened, [true, false, false, true, false, false]);
    });
  });
}

function ask(agent: Agent, url: string, headers: Record<string, string>): Promise<void> {
  return new Promise((resolve, reject) => {
    const asked = request(url, { agent, method: "GET", headers }, (answer) => {
      answer.resume();
      answer.once("end", resolve);
    });
    asked.once("error", reject);
    asked.end();
  });
}
