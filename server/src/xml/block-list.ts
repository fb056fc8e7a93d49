import { ServiceError } from "@rowhouse/protocol/errors";
import { LIMITS } from "@rowhouse/protocol/limits";
import { checkElementsOnly, leafText } from "./members.ts";
import { printElement, printLeaf, XML_DECLARATION } from "./print-xml.ts";
import { decodeUtf8, readXml } from "./read-xml.ts";
import { invalidXml } from "./xml-refusal.ts";

/** A block named in a list, and where to look for it: "Latest" is uncommitted before committed. */
export interface BlockChoice {
  readonly from: "Committed" | "Uncommitted" | "Latest";
  /** Base64, as it was sent. */
  readonly id: string;
}

/**
 * Reads the body of Put Block List; the order of the elements is that of the content.
 * @throws ServiceError InvalidXmlDocument, BlockListTooLong; RequestBodyTooLarge for a long one that is no plain list.
 */
export function parseBlockList(body: Uint8Array): readonly BlockChoice[] {
  return readPlain(body) ?? readAny(body);
}

/**
 * The document that clients send: nothing but blocks, with or without a declaration and white space. The answer for any
 * other is undefined, and `readXml` knows. Without a tree 50,000 blocks take a tenth of the time, and lists longer than
 * other documents may be cost no more than their length.
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

/** In either kind of quotes: clients differ. */
const OPENING =
  /^(?:<\?xml[ \t\r\n]+version=(["'])1\.0\1(?:[ \t\r\n]+encoding=(["'])(?:utf|UTF)-8\2)?(?:[ \t\r\n]+standalone=(["'])(?:yes|no)\3)?[ \t\r\n]*\?>)?[ \t\r\n]*<BlockList>/;
/** An id of printable ASCII, without what has to be escaped. */
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

/** The answer of Get Block List; a list that was not asked for is undefined. */
export function printBlockLists(lists: {
  readonly committed: readonly ListedBlock[] | undefined;
  readonly uncommitted: readonly ListedBlock[] | undefined;
}): string {
  const { committed, uncommitted } = lists;
  return (
    XML_DECLARATION +
    printElement(
      ROOT,
      (committed ? printElement("CommittedBlocks", committed.map(printBlock).join("")) : "") +
        (uncommitted
          ? printElement("UncommittedBlocks", uncommitted.map(printBlock).join(""))
          : ""),
    )
  );
}

function printBlock({ id, length }: ListedBlock): string {
  return printElement("Block", printLeaf("Name", id) + printLeaf("Size", length));
}
