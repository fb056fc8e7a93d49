import { once } from "node:events";
import { createServer, type ServerResponse } from "node:http";
import { answerCommands } from "../harness/bench-process.ts";

/** The answer to every request from now on. */
export interface BareAnswer {
  readonly status: number;
  /** Names and values alternate. */
  readonly headers: readonly string[];
  readonly body: Uint8Array;
}

// The limit of any server on node:http: it reads the request, body included, ignores its content, and sends
// prepared bytes.
let answer: BareAnswer = { status: 404, headers: [], body: new Uint8Array() };

const server = createServer((request, response) => {
  if (request.method === "GET" || request.method === "DELETE") {
    respond(response);
  } else {
    request.on("data", ignore);
    request.on("end", () => respond(response));
  }
});
// The bench's clients stay connected for minutes.
server.keepAliveTimeout = 600_000;

function ignore(): void {}

function respond(response: ServerResponse): void {
  response.writeHead(answer.status, answer.headers as string[]);
  response.end(answer.body);
}

answerCommands<BareAnswer, number>(async (command) => {
  answer = command;
  if (!server.listening) {
    server.listen(0, "127.0.0.1");
    await once(server, "listening");
  }
  const address = server.address();
  if (address === null || typeof address === "string") throw new Error("No port to listen on.");
  return address.port;
});
