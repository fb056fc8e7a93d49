import { useSignal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { copyText } from "./copy-text.ts";
import type { Cell, Row } from "./entities.ts";
import { toJson } from "./entity-json.ts";
import { Failure } from "./failure.tsx";
import { ServerError } from "./session.ts";
import { readEntity } from "./table-facts.ts";
import { bytes, count } from "./text.ts";

/** An entity with its whole values. */
export function EntityPane({ table, row, close }: { table: string; row: Row; close: () => void }) {
  const whole = useSignal<{ readonly row: Row; readonly etag: string } | undefined>(undefined);
  const failure = useSignal<ServerError | undefined>(undefined);
  const copied = useSignal("");
  useEffect(() => {
    let isLeft = false;
    whole.value = undefined;
    failure.value = undefined;
    copied.value = "";
    readEntity(table, row).then(
      (read) => {
        if (!isLeft) whole.value = read;
      },
      (error) => {
        if (!(error instanceof ServerError)) throw error;
        if (!isLeft) failure.value = error;
      },
    );
    return () => {
      isLeft = true;
    };
  }, [table, row, whole, failure, copied]);
  const shown = whole.value?.row;
  return (
    <aside class="entity" aria-label="Entity">
      <div class="page-head">
        <h2>Entity</h2>
        <span class="space" />
        {shown && (
          <button
            type="button"
            onClick={async () => {
              copied.value = (await copyText(toJson(shown))) ? "copied" : "could not copy";
            }}
          >
            Copy JSON
          </button>
        )}
        <span role="status" class="quiet">
          {copied.value}
        </span>
        <button type="button" class="plain" aria-label="Close the entity" onClick={close}>
          ✕
        </button>
      </div>
      {failure.value && <Failure error={failure.value} />}
      {!shown && !failure.value && <p class="quiet">Reading…</p>}
      {shown && (
        <dl>
          <Property name="PartitionKey" cell={{ type: "Edm.String", text: row.partitionKey }} />
          <Property name="RowKey" cell={{ type: "Edm.String", text: row.rowKey }} />
          {[...shown.cells].map(([name, cell]) => (
            <Property key={name} name={name} cell={cell} />
          ))}
          <dt>ETag</dt>
          <dd class="mono quiet">{whole.value!.etag}</dd>
        </dl>
      )}
    </aside>
  );
}

/** Longer values are drawn on request: laying out a line of 32,000 characters takes a browser longer than a frame. */
const DRAWN_MAX = 4000;

function Property({ name, cell: { type, text } }: { name: string; cell: Cell }) {
  const isAll = useSignal(false);
  const isLong = text.length > DRAWN_MAX && !isAll.value;
  return (
    <>
      <dt>
        {name} <span class="type">{type.slice("Edm.".length)}</span>
        {text.length > 256 && (
          <span class="type">
            {type === "Edm.Binary"
              ? bytes(Math.floor(text.length * 0.75))
              : `${count(text.length)} characters`}
          </span>
        )}
      </dt>
      <dd class="mono" dir="auto">
        {text === "" ? (
          <span class="quiet">∅ empty</span>
        ) : isLong ? (
          text.slice(0, DRAWN_MAX)
        ) : (
          text
        )}
        {isLong && (
          <>
            {"… "}
            <button
              type="button"
              class="link"
              onClick={() => {
                isAll.value = true;
              }}
            >
              show all {count(text.length)}
            </button>
          </>
        )}
      </dd>
    </>
  );
}
