import { ServiceError } from "@rowhouse/protocol/errors";
import { LIMITS } from "@rowhouse/protocol/limits";
import { toBuffer } from "../byte-views.ts";
import { HttpDate } from "../wire/http-date.ts";
import { QUEUE_DOCUMENTS } from "../xml/document-rules.ts";
import { escapeText, printDocument, printElement } from "../xml/print-xml.ts";
import { leafReader } from "../xml/read-leaf.ts";
import { readXml } from "../xml/read-xml.ts";
import { invalidXml, wrongNode } from "../xml/xml-refusal.ts";
import { printMessageId } from "./message-id.ts";
import type { Message } from "./message-record.ts";
import { printPopReceipt } from "./pop-receipt.ts";

/**
 * Reads the text of a message, as UTF-8, from the body of Put or Update Message. Markup inside the text is
 * dropped and its text kept; siblings of `MessageText` are ignored.
 * @throws ServiceError InvalidXmlDocument, MissingRequiredXmlNode or RequestBodyTooLarge.
 */
export function parseMessageText(body: Uint8Array): Uint8Array {
  const bytes = Buffer.from(readPlain(body) ?? readAny(body), "utf8");
  if (bytes.length > LIMITS.messageBytesMax) {
    throw new ServiceError("RequestBodyTooLarge", {
      details: [["MaxLimit", String(LIMITS.messageBytesMax)]],
    });
  }
  return bytes;
}

const ROOT = "QueueMessage";
const TEXT = "MessageText";
const readPlain = leafReader(ROOT, TEXT);

function readAny(body: Uint8Array): string {
  const root = readXml(body, LIMITS.messageBodyBytesMax);
  if (root.name !== ROOT) throw invalidXml(`The root element is ${root.name}, not ${ROOT}.`);
  const element = root.children.find(({ name }) => name === TEXT);
  if (!element) throw wrongNode(QUEUE_DOCUMENTS.missingNode, TEXT);
  return element.text;
}

/** The answer to Put Message, which lacks the text. */
export function printPutMessage(message: Message): string {
  return printList([printIdentity(message) + printHold(message)]);
}

/** The answer to Get Messages. */
export function printMessages(messages: readonly Message[]): string {
  return printList(
    messages.map((each) => printIdentity(each) + printHold(each) + printContent(each)),
  );
}

/** The answer to Peek Messages, which has no pop receipts. */
export function printPeekedMessages(messages: readonly Message[]): string {
  return printList(messages.map((each) => printIdentity(each) + printContent(each)));
}

function printList(messages: readonly string[]): string {
  const list = messages.map((message) => `<QueueMessage>${message}</QueueMessage>`).join("");
  return printDocument(printElement("QueueMessagesList", list));
}

function printIdentity({ id, insertedAt, expiresAt }: Message): string {
  return `<MessageId>${printMessageId(id)}</MessageId><InsertionTime>${insertion.at(insertedAt)}</InsertionTime><ExpirationTime>${expiration.at(expiresAt)}</ExpirationTime>`;
}

function printHold(message: Message): string {
  return `<PopReceipt>${printPopReceipt(message)}</PopReceipt><TimeNextVisible>${nextVisible.at(message.visibleAt)}</TimeNextVisible>`;
}

function printContent({ dequeueCount, text }: Message): string {
  const content = toBuffer(text).toString("utf8");
  return `<DequeueCount>${dequeueCount}</DequeueCount><MessageText>${escapeText(content)}</MessageText>`;
}

/** When a message becomes visible, in RFC 1123 form. */
export function printNextVisible({ visibleAt }: Message): string {
  return nextVisible.at(visibleAt);
}

/** Messages of one second mostly share each of the three dates; printing them again costs 1.5 µs. */
const insertion = new HttpDate();
const expiration = new HttpDate();
const nextVisible = new HttpDate();
