import type { Cell, Row } from "../entities.ts";
import { type Change, isSameCell, type KnownEntity } from "../staged.ts";

export type Side = "yours" | "theirs";

/** A property about which the last read, the change and the server do not agree. */
export interface Difference {
  readonly name: string;
  readonly base: Cell | undefined;
  readonly yours: Cell | undefined;
  readonly theirs: Cell | undefined;
  /** Whether both sides changed it: then somebody has to choose. */
  readonly isDisputed: boolean;
  /** What only one side changed is taken from that side; else yours. */
  readonly side: Side;
}

/** @param base what the change was made from; undefined for an insert of an entity that exists by now */
export function differencesOf(base: Row | undefined, yours: Row, theirs: Row): Difference[] {
  const names = new Set([
    ...[...(base?.cells.keys() ?? []), ...yours.cells.keys(), ...theirs.cells.keys()],
  ]);
  names.delete("Timestamp");
  return [...names].flatMap((name): Difference[] => {
    const [was, mine, other] = [base, yours, theirs].map((row) => row?.cells.get(name));
    const isMine = !isSameCell(was, mine);
    const isTheirs = !isSameCell(was, other);
    if (isSameCell(mine, other) || (!isMine && !isTheirs)) return [];
    const side = isMine ? "yours" : "theirs";
    return [{ name, base: was, yours: mine, theirs: other, isDisputed: isMine && isTheirs, side }];
  });
}

/** The change as it is after each difference was settled: on top of what the server has now. */
export function settle(
  { row }: Change,
  now: KnownEntity,
  differences: readonly Difference[],
): Change {
  const cells = new Map(now.row.cells);
  for (const { name, side, yours } of differences) {
    if (side === "theirs") continue;
    if (yours) cells.set(name, yours);
    else cells.delete(name);
  }
  return { kind: "update", row: { ...row, cells }, base: now };
}
