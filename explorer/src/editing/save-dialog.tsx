import { useSignal } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";
import { accountAddress } from "../changeset.ts";
import { Failure } from "../failure.tsx";
import { session } from "../session.ts";
import { type Change, type Changes, idOf, type Saved } from "../staged.ts";
import type { TableView } from "../table-view.ts";
import { counted } from "../text.ts";
import { ConflictView } from "./conflict-view.tsx";
import { type Outcome, sendTransaction } from "./save.ts";
import {
  canonical,
  groupIntoTransactions,
  inverseOf,
  problemsOf,
  repeatedKeys,
  type Transaction,
} from "./transactions.ts";

type Conflict = Extract<Outcome, { kind: "conflict" }>;

interface DialogProps {
  readonly view: TableView;
  /** To save what is staged, or to take the last save back. */
  readonly mode: "save" | "undo";
  readonly close: () => void;
  /** Opens an entity on the screen behind. */
  readonly open: (id: string, change: Change) => void;
}

/** What a save, or undoing one, will send; then what became of each transaction. */
export function SaveDialog({ view, mode, close, open }: DialogProps) {
  const dialog = useRef<HTMLDialogElement>(null);
  const { edits, table } = view;
  const undoes = useSignal(mode === "undo");
  const outcomes = useSignal<readonly (Outcome | "sending" | undefined)[]>([]);
  const conflict = useSignal<Conflict | undefined>(undefined);
  const isBusy = outcomes.value.includes("sending");
  /** What was sent, once something was: the outcomes are of these. */
  const sent = useSignal<readonly Transaction[] | undefined>(undefined);
  useEffect(() => dialog.current?.showModal(), []);
  const changes = undoes.value
    ? inverseChanges(edits.saves.value.at(-1) ?? [])
    : edits.changes.value;
  const wrong = [...changes].filter(([, change]) => problemsOf(change).size > 0);
  const repeated = repeatedKeys(changes);
  const canSend = wrong.length === 0 && repeated.length === 0 && changes.size > 0;
  const groups =
    sent.value ??
    (canSend ? groupIntoTransactions(changes, { base: accountAddress(), table }) : []);
  const partitions = new Set(groups.map(({ partitionKey }) => partitionKey)).size;

  const send = async () => {
    sent.value = groups;
    const set = (i: number, outcome: Outcome | "sending") => {
      outcomes.value = groups.map((_, j) => (j === i ? outcome : outcomes.value[j]));
    };
    const saved: Saved[] = [];
    const before = edits.saves.value.at(-1);
    for (const [i, group] of groups.entries()) {
      set(i, "sending");
      const outcome = await sendTransaction(table, group);
      set(i, outcome);
      if (outcome.kind !== "saved") continue;
      const own = group.items.map(({ change }) => change);
      saved.push({ at: Date.now(), inverse: inverseOf(own, outcome.etags) });
      if (!undoes.value) for (const { id } of group.items) edits.stage(id, undefined);
      view.takeSaved(
        own.map((change, j) => ({ ...change, row: canonical(change.row), etag: outcome.etags[j] })),
      );
    }
    if (undoes.value) {
      const done = new Set(saved.flatMap(({ inverse }) => inverse.map(({ row }) => idOf(row))));
      const left = (before ?? []).flatMap(({ at, inverse }): Saved[] => {
        const rest = inverse.filter(({ row }) => !done.has(idOf(row)));
        return rest.length > 0 ? [{ at, inverse: rest }] : [];
      });
      edits.saves.value = [...edits.saves.value.slice(0, -1), ...(left.length > 0 ? [left] : [])];
    } else if (saved.length > 0) edits.saves.value = [...edits.saves.value, saved];
    if (saved.length === groups.length) {
      const word = undoes.value ? "Undone" : "Saved";
      view.notice.value = `${word}: ${counted(sum(groups), "change")} in ${counted(groups.length, "transaction")}.`;
      dialog.current?.close();
    }
  };
  const settled = (id: string, change: Change | undefined) => {
    const found = conflict.value!;
    if (undoes.value) {
      // Undoing this one is over: what is left of it is a change like any other.
      const rest = (edits.saves.value.at(-1) ?? []).map(({ at, inverse }) => ({
        at,
        inverse: inverse.filter(({ row }) => idOf(row) !== idOf(found.item.change.row)),
      }));
      const left = rest.filter(({ inverse }) => inverse.length > 0);
      edits.saves.value = [...edits.saves.value.slice(0, -1), ...(left.length > 0 ? [left] : [])];
      undoes.value = left.length > 0;
    } else if (found.item.id !== id) edits.stage(found.item.id, undefined);
    edits.stage(id, change);
    conflict.value = undefined;
    sent.value = undefined;
    outcomes.value = [];
    if (edits.changes.value.size === 0 && !undoes.value) dialog.current?.close();
  };

  return (
    <dialog ref={dialog} class="wide" aria-labelledby="save-title" onClose={close}>
      <h2 id="save-title">
        {undoes.value ? "Undo the last save of" : "Save to"} {table} of {session.value!.account}
      </h2>
      {conflict.value ? (
        <ConflictView
          conflict={conflict.value}
          settle={settled}
          back={() => {
            conflict.value = undefined;
          }}
        />
      ) : (
        <>
          {wrong.map(([id, change]) => (
            <p key={id} class="problem">
              <Keys row={change.row} />:{" "}
              {[...problemsOf(change)].map(([name, why]) => `${name} ${why}`).join(" ")}{" "}
              <button
                type="button"
                class="link"
                onClick={() => {
                  dialog.current?.close();
                  open(id, change);
                }}
              >
                Open it
              </button>
            </p>
          ))}
          {repeated.map((row) => (
            <p key={idOf(row)} class="problem">
              <Keys row={row} /> is staged more than once; a transaction may name an entity once.
            </p>
          ))}
          {groups.length > 0 && (
            <p>
              {counted(groups.length, "transaction")} in {counted(partitions, "partition")}. Each is
              saved as a whole or not at all
              {groups.length > 1
                ? "; they do not commit together: one may be saved and another refused."
                : "."}
              {undoes.value && " Nothing is taken back that somebody changed since."}
            </p>
          )}
          <ul class="transactions" aria-label="Transactions" tabIndex={0}>
            {groups.map((group, i) => (
              <TransactionItem
                key={`${group.partitionKey} ${group.part}`}
                group={group}
                outcome={outcomes.value[i]}
                compare={(found) => {
                  conflict.value = found;
                }}
              />
            ))}
          </ul>
          <div class="buttons">
            {!undoes.value && !sent.value && changes.size > 0 && (
              <>
                <button
                  type="button"
                  class="danger"
                  onClick={() => {
                    edits.changes.value = new Map();
                    dialog.current?.close();
                  }}
                >
                  Discard all
                </button>
                <span class="space" />
              </>
            )}
            <button type="button" disabled={isBusy} onClick={() => dialog.current?.close()}>
              {sent.value ? "Close" : "Not now"}
            </button>
            {!sent.value && (
              <button type="button" class="primary" autofocus disabled={!canSend} onClick={send}>
                {undoes.value ? "Undo" : "Save"}
              </button>
            )}
          </div>
        </>
      )}
    </dialog>
  );
}

function inverseChanges(saved: readonly Saved[]): Changes {
  return new Map(saved.flatMap(({ inverse }) => inverse.map((each) => [idOf(each.row), each])));
}

function sum(groups: readonly Transaction[]): number {
  return groups.reduce((all, { items }) => all + items.length, 0);
}

function Keys({ row }: { row: Change["row"] }) {
  return (
    <strong class="mono">
      {row.partitionKey || "∅"} / {row.rowKey || "∅"}
    </strong>
  );
}

const ITEMS_SHOWN = 20;

function TransactionItem({
  group: { partitionKey, part, parts, items },
  outcome,
  compare,
}: {
  group: Transaction;
  outcome: Outcome | "sending" | undefined;
  compare: (conflict: Conflict) => void;
}) {
  const failed =
    outcome !== undefined && outcome !== "sending" && outcome.kind !== "saved"
      ? outcome
      : undefined;
  return (
    <li>
      <h3>
        {outcome === "sending" && "… "}
        {outcome !== "sending" && outcome?.kind === "saved" && "✓ "}
        {failed && "✗ "}
        Partition <span class="mono">{partitionKey || "∅"}</span>
        {parts > 1 && `, ${part} of ${parts}`}{" "}
        <span class="quiet">
          {counted(items.length, "change")}
          {outcome !== "sending" && outcome?.kind === "saved" && ", saved"}
          {failed && ", nothing saved"}
        </span>
      </h3>
      <ul>
        {items.slice(0, ITEMS_SHOWN).map((item) => (
          <li key={item.id} class={failed?.item === item ? "problem" : undefined}>
            <span class="mono">{item.change.row.rowKey || "∅"}</span>{" "}
            <span class="quiet">{item.words}</span>
          </li>
        ))}
        {items.length > ITEMS_SHOWN && <li class="quiet">and {items.length - ITEMS_SHOWN} more</li>}
      </ul>
      {failed?.kind === "conflict" && (
        <div class="error" role="alert">
          <p>
            Somebody else {failed.now ? "changed" : "deleted"}{" "}
            <strong class="mono">{failed.item.change.row.rowKey || "∅"}</strong> in the meantime.
          </p>
          <p class="quiet small">{failed.message}</p>
          <button type="button" onClick={() => compare(failed)}>
            Compare
          </button>
        </div>
      )}
      {failed?.kind === "refused" && <Failure error={failed.error} />}
    </li>
  );
}
