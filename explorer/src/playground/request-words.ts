import { type Mutation, printFilter } from "@rowhouse/patterns";
import type { PortCall } from "@rowhouse/patterns/testing";

const READS = new Set(["get", "query", "listTables", "peek", "list"]);

export function isWrite({ method }: PortCall): boolean {
  return !READS.has(method);
}

type Key = { readonly partitionKey: string; readonly rowKey: string };

/** A request of the library's in a line. */
export function wordsOf({ port, method, args }: PortCall): string {
  const [place, detail] = args;
  const name = typeof place === "string" ? place : "";
  const own = Object(detail);
  if (port === "queues") return queueWords(method, name, args);
  switch (method) {
    case "get":
      return `read ${name} ${keyWords(own)}`;
    case "query":
      return `query ${name} ${printFilter(own.filter)}${own.continuation ? ", next page" : ""}`;
    case "commit":
      return `commit to ${name}: ${mutationWords(own)}`;
    default:
      return `${method.replace(/[A-Z]/g, (letter) => ` ${letter.toLowerCase()}`)} ${name}`;
  }
}

function keyWords({ partitionKey, rowKey }: Key): string {
  return `${partitionKey} | ${rowKey}`;
}

const SHOWN = 4;

function mutationWords(mutations: readonly Mutation[]): string {
  const said = mutations.slice(0, SHOWN).map((one) => `${one.kind} ${keyWords(one)}`);
  const more = mutations.length - said.length;
  return more > 0 ? `${said[0]} and ${mutations.length - 1} more` : said.join(", ");
}

function queueWords(method: string, queue: string, args: readonly unknown[]): string {
  const { delayMs, visibilityMs } = Object(args[2] ?? args[1]);
  switch (method) {
    case "send":
      return `send a message to ${queue}${delayMs ? `, hidden for ${delayMs / 1000} s` : ""}`;
    case "receive":
      return `receive from ${queue}`;
    case "update":
      return `hide the message in ${queue} for ${visibilityMs / 1000} s`;
    case "delete":
      return `delete the message from ${queue}`;
    default:
      return `${method} ${queue}`;
  }
}
