import { ServiceError } from "@rowhouse/protocol/errors";
import { LIMITS } from "@rowhouse/protocol/limits";
import { checkElementsOnly, leafText } from "./members.ts";
import { printDocument, printElement, printLeaf } from "./print-xml.ts";
import { decodeUtf8, readXml } from "./read-xml.ts";
import { invalidXml } from "./xml-refusal.ts";

/** A block in a list, and where to look for it: "Latest" tries uncommitted blocks, then committed ones. */
export interface BlockChoice {
  readonly from: "Committed" | "Uncommitted" | "Latest";
  /** Base64, as sent. */
  readonly id: string;
}

/**
 * Parses the body of Put Block List; the order of the elements is the order of the content.
 * @throws ServiceError InvalidXmlDocument, BlockListTooLong; RequestBodyTooLarge for a long
 * document that is not a plain list.
 */
export function parseBlockList(body: Uint8Array): readonly BlockChoice[] {
  return readPlain(body) ?? readAny(body);
}

/**
 * Parses the document that clients send: nothing but blocks, with or without a declaration and
 * white space. Returns undefined for any other document, which is left to `readXml`. Without a
 * tree, 50,000 blocks take a tenth of the time, and lists may be longer than other documents at a
 * cost linear in their length.
 */
function readPlain(body: Uint8Array): readonly BlockChoice[] | undefined {
  const text = decodeUtf8(body);
  const opening = OPENING.exec(text)?.[0];
  if (opening === undefined) return undefined;
  const choices: BlockChoice[] = [];
  let at = opening.length;
  for (;;) {
    PLAIN_BLOCK.lastIndex = at;
    const block = PLAIN_BLOCK.exec(text);
    if (block === null) break;
    if (choices.length === LIMITS.committedBlocksMax) throw new ServiceError("BlockListTooLong");
    choices.push({ from: choiceOf(block[1]!), id: block[2]!.trim() });
    at = PLAIN_BLOCK.lastIndex;
  }
  CLOSING.lastIndex = at;
  return CLOSING.test(text) ? choices : undefined;
}

/** In single or double quotes, because clients differ. */
const OPENING =
  /^(?:<\?xml[ \t\r\n]+version=(["'])1\.0\1(?:[ \t\r\n]+encoding=(["'])(?:utf|UTF)-8\2)?(?:[ \t\r\n]+standalone=(["'])(?:yes|no)\3)?[ \t\r\n]*\?>)?[ \t\r\n]*<BlockList>/;
/** An id of printable ASCII without characters that need escaping. */
const PLAIN_BLOCK = /[ \t\r\n]*<(Latest|Committed|Uncommitted)>([ -%'-;=?-~]*)<\/\1>/y;
const CLOSING = /[ \t\r\n]*<\/BlockList>[ \t\r\n]*$/y;

function readAny(body: Uint8Array): readonly BlockChoice[] {
  const root = readXml(body);
  if (root.name !== ROOT) throw invalidXml(`The root element is ${root.name}, not ${ROOT}.`);
  checkElementsOnly(root);
  if (root.children.length > LIMITS.committedBlocksMax) throw new ServiceError("BlockListTooLong");
  return root.children.map((element) => ({
    from: choiceOf(element.name),
    id: leafText(element),
  }));
}

const ROOT = "BlockList";

function choiceOf(name: string): BlockChoice["from"] {
  if (name === "Committed" || name === "Uncommitted" || name === "Latest") return name;
  throw invalidXml(`The element ${name} is misplaced.`);
}

export interface ListedBlock {
  readonly id: string;
  readonly length: number;
}

/** The response of Get Block List; a list that was not requested is undefined. */
export function printBlockLists(lists: {
  readonly committed: readonly ListedBlock[] | undefined;
  readonly uncommitted: readonly ListedBlock[] | undefined;
}): string {
  const { committed, uncommitted } = lists;
  return printDocument(
    printElement(
      ROOT,
      (committed ? printElement("CommittedBlocks", committed.map(printBlock).join("")) : "") +
        (uncommitted
          ? printElement("UncommittedBlocks", uncommitted.map(printBlock).join(""))
          : ""),
    ),
  );
}

function printBlock({ id, length }: ListedBlock): string {
  return printElement("Block", printLeaf("Name", id) + printLeaf("Size", length));
}
