import { ServiceError } from "@rowhouse/protocol/errors";
import { LIMITS } from "@rowhouse/protocol/limits";
import { checkElementsOnly, leafText } from "./members.ts";
import { printElement, printLeaf, XML_DECLARATION } from "./print-xml.ts";
import { readXml } from "./read-xml.ts";
import { invalidXml } from "./xml-refusal.ts";

/** A block named in a list, and where to look for it: "Latest" is uncommitted before committed. */
export interface BlockChoice {
  readonly from: "Committed" | "Uncommitted" | "Latest";
  /** Base64, as it was sent. */
  readonly id: string;
}

/**
 * Reads the body of Put Block List; the order of the elements is that of the content.
 * @throws ServiceError InvalidXmlDocument, BlockListTooLong.
 */
export function parseBlockList(body: Uint8Array): readonly BlockChoice[] {
  const root = readXml(body, LIMITS.blockListBodyBytesMax);
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
