import { propertiesJson } from "./dataset.ts";
import type { ResponseReader } from "./response-reader.ts";
import type { SharedKeyWriter } from "./shared-key-writer.ts";
import type { Client, Workload } from "./workload.ts";

/** One operation puts a message of 1 KB, the size of the entities in the other questions. */
export function createPutMessage(writer: SharedKeyWriter, queue: string): Workload {
  return {
    request: (client) => put(writer, queue, client),
    answered: (_client, { status }) => (status === 201 ? "done" : "failed"),
  };
}

/**
 * One operation receives a message and deletes it. A client that finds the queue empty first puts a message,
 * within the same operation.
 */
export function createReceiveMessage(writer: SharedKeyWriter, queue: string): Workload {
  const path = `/${queue}/messages`;
  return {
    readsBodies: true,
    request(client) {
      const { pending } = client;
      if (pending === EMPTY) return put(writer, queue, client);
      if (pending === "") return writer.write("GET", path);
      const [id = "", receipt = ""] = pending.split(" ");
      return writer.write("DELETE", `${path}/${id}`, { query: [["popreceipt", receipt]] });
    },
    answered(client, answer) {
      const { status } = answer;
      if (status !== 200) {
        client.pending = "";
        if (status === 201) return "again";
        return status === 204 ? "done" : "failed";
      }
      client.pending = holdIn(answer);
      return "again";
    },
  };
}

function put(writer: SharedKeyWriter, queue: string, client: Client): string {
  const text = propertiesJson(client.random(TEXTS));
  const body = `<QueueMessage><MessageText>${text}</MessageText></QueueMessage>`;
  const head = { contentType: "application/xml", bodyBytes: body.length };
  return writer.write("POST", `/${queue}/messages`, head) + body;
}

const TEXTS = 10_000;

/** Id and pop receipt of the message in an answer. */
function holdIn({ body }: ResponseReader): string {
  const found = HOLD.exec(Buffer.concat(body).toString("latin1"));
  return found ? `${found[1]} ${found[2]}` : EMPTY;
}

const HOLD = /<MessageId>([^<]+)<.*<PopReceipt>([^<]+)</s;
const EMPTY = "empty";
