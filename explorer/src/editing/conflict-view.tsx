import { useSignal } from "@preact/signals";
import type { Cell, Row } from "../entities.ts";
import { type Change, idOf } from "../staged.ts";
import type { Outcome } from "./save.ts";
import { type Difference, differencesOf, type Side, settle } from "./three-way.ts";

interface ConflictProps {
  readonly conflict: Extract<Outcome, { kind: "conflict" }>;
  /** Stages what was decided in the place of the change; undefined: nothing. */
  readonly settle: (id: string, change: Change | undefined) => void;
  readonly back: () => void;
}

/** An entity that somebody else changed: as it was read, as it is staged, as it is now. */
export function ConflictView({ conflict, settle: decide, back }: ConflictProps) {
  const { change } = conflict.item;
  const { now } = conflict;
  const yours: Row = change.kind === "delete" ? { ...change.row, cells: new Map() } : change.row;
  const sides = useSignal<Readonly<Record<string, Side>>>({});
  const all = now
    ? differencesOf(change.base?.row, change.kind === "delete" ? now.row : yours, now.row)
    : [];
  const differences = all.map((each) => ({ ...each, side: sides.value[each.name] ?? each.side }));
  const id = idOf(change.row);
  const key = (
    <strong class="mono">
      {change.row.partitionKey || "∅"} / {change.row.rowKey || "∅"}
    </strong>
  );
  if (!now)
    return (
      <>
        <p>
          {key} was deleted by somebody else.{" "}
          {change.kind === "delete" && "That is what you wanted."}
        </p>
        <div class="buttons">
          <button type="button" onClick={back}>
            Back
          </button>
          <button type="button" onClick={() => decide(id, undefined)}>
            {change.kind === "delete" ? "Done" : "Drop my change"}
          </button>
          {change.kind !== "delete" && (
            <button
              type="button"
              class="primary"
              onClick={() => decide(id, { kind: "insert", row: yours, base: undefined })}
            >
              Insert it again
            </button>
          )}
        </div>
      </>
    );
  if (change.kind === "delete")
    return (
      <>
        <p>{key} was changed since you read it:</p>
        <Comparison
          differences={differencesOf(undefined, change.base?.row ?? change.row, now.row)}
          titles={["as you read it", "now"]}
        />
        <div class="buttons">
          <button type="button" onClick={back}>
            Back
          </button>
          <button type="button" onClick={() => decide(id, undefined)}>
            Keep it
          </button>
          <button
            type="button"
            class="danger"
            onClick={() => decide(id, { kind: "delete", row: now.row, base: now })}
          >
            Delete it as it is now
          </button>
        </div>
      </>
    );
  return (
    <>
      <p>
        {key}{" "}
        {change.base
          ? "was changed since you read it. Choose for each property; what only one side changed is chosen already."
          : "is there already. Choose for each property."}
      </p>
      <Comparison
        differences={differences}
        titles={["yours", "theirs, now"]}
        choose={(name, side) => {
          sides.value = { ...sides.value, [name]: side };
        }}
      />
      <div class="buttons">
        <button type="button" onClick={back}>
          Back
        </button>
        <button type="button" onClick={() => decide(id, undefined)}>
          Drop my change
        </button>
        <button
          type="button"
          class="primary"
          onClick={() => decide(id, settle({ ...change, row: yours }, now, differences))}
        >
          Stage what is chosen
        </button>
      </div>
    </>
  );
}

function Comparison({
  differences,
  titles,
  choose,
}: {
  differences: readonly Difference[];
  titles: readonly [string, string];
  choose?: (name: string, side: Side) => void;
}) {
  if (differences.length === 0) return <p class="quiet">Both have the same values.</p>;
  return (
    <div class="scrolls" role="group" aria-label="Differences" tabIndex={0}>
      <table class="list three-way">
        <thead>
          <tr>
            <th scope="col">Property</th>
            {choose && <th scope="col">as you read it</th>}
            <th scope="col">{titles[0]}</th>
            <th scope="col">{titles[1]}</th>
          </tr>
        </thead>
        <tbody>
          {differences.map(({ name, base, yours, theirs, isDisputed, side }) => (
            <tr key={name}>
              <th scope="row">
                {name} {choose && isDisputed && <span class="tag">both changed it</span>}
              </th>
              {choose && (
                <td>
                  <Shown cell={base} />
                </td>
              )}
              {(["yours", "theirs"] as const).map((each) => (
                <td key={each} class={choose && side === each ? "picked" : undefined}>
                  {choose ? (
                    <label class="inline">
                      <input
                        type="radio"
                        name={`side-${name}`}
                        checked={side === each}
                        onChange={() => choose(name, each)}
                      />{" "}
                      <span class="hidden">
                        {each} for {name}:
                      </span>
                      <Shown cell={each === "yours" ? yours : theirs} />
                    </label>
                  ) : (
                    <Shown cell={each === "yours" ? yours : theirs} />
                  )}
                </td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

const SHOWN_MAX = 200;

function Shown({ cell }: { cell: Cell | undefined }) {
  if (!cell) return <span class="quiet">— absent</span>;
  const { type, text } = cell;
  return (
    <>
      <bdi class="mono">{text === "" ? "∅ empty" : text.slice(0, SHOWN_MAX)}</bdi>
      {text.length > SHOWN_MAX && "…"} <span class="type">{type.slice("Edm.".length)}</span>
    </>
  );
}
