import { useSignal } from "@preact/signals";
import { EDM_TYPES, type EdmType } from "@rowhouse/protocol/edm";
import { LIMITS } from "@rowhouse/protocol/limits";
import type { Cell } from "../entities.ts";
import { bytes, count } from "../text.ts";
import {
  base64Of,
  base64OfHex,
  bytesOf,
  convert,
  FIRST_TEXT,
  hexOf,
  readValue,
} from "./edm-text.ts";

interface FieldProps {
  readonly name: string;
  readonly cell: Cell;
  /** What it was; undefined where the entity did not have it. */
  readonly before: Cell | undefined;
  readonly problem: string | undefined;
  readonly change: (cell: Cell) => void;
  readonly remove: () => void;
}

/** A property of a draft: its type, its value, and what is wrong with it. */
export function ValueField({ name, cell, before, problem, change, remove }: FieldProps) {
  const isChanged = before?.type !== cell.type || before.text !== cell.text;
  const asks = useSignal<{ to: EdmType; cell: Cell } | undefined>(undefined);
  const note = `note-${name}`;
  const convertTo = (to: EdmType) => {
    const made = convert(cell, to);
    if (made?.isLossless) change(made.cell);
    else asks.value = { to, cell: made?.cell ?? { type: to, text: FIRST_TEXT[to] } };
  };
  return (
    <div class={isChanged ? "field changed" : "field"}>
      <div class="field-head">
        <span class="field-name" title={name}>
          {isChanged && <span title="Changed, not saved">• </span>}
          {name}
        </span>
        <select
          aria-label={`Type of ${name}`}
          value={cell.type}
          onChange={(event) => {
            const to = event.currentTarget.value as EdmType;
            event.currentTarget.value = cell.type;
            convertTo(to);
          }}
        >
          {EDM_TYPES.map((type) => (
            <option key={type} value={type}>
              {type.slice("Edm.".length)}
            </option>
          ))}
        </select>
        {isChanged && before && (
          <button
            type="button"
            class="plain"
            aria-label={`Back to the saved value of ${name}`}
            title="Back to the saved value"
            onClick={() => change(before)}
          >
            ↺
          </button>
        )}
        <button
          type="button"
          class="plain"
          aria-label={`Remove ${name}`}
          title="Remove the property: the entity will not have it"
          onClick={remove}
        >
          ✕
        </button>
      </div>
      <Value name={name} cell={cell} note={note} isWrong={problem !== undefined} change={change} />
      <p id={note} class={problem ? "problem small" : "quiet small"}>
        {problem ?? hintOf(cell)}
      </p>
      {asks.value && (
        <p class="notice small" role="alert">
          As {asks.value.to.slice("Edm.".length)} it becomes{" "}
          <strong class="mono">{asks.value.cell.text || "empty"}</strong>, from which the value
          cannot be had back.{" "}
          <button
            type="button"
            onClick={() => {
              change(asks.value!.cell);
              asks.value = undefined;
            }}
          >
            Convert anyway
          </button>{" "}
          <button
            type="button"
            onClick={() => {
              asks.value = undefined;
            }}
          >
            Keep
          </button>
        </p>
      )}
    </div>
  );
}

function Value({
  name,
  cell,
  note,
  isWrong,
  change,
}: {
  name: string;
  cell: Cell;
  note: string;
  isWrong: boolean;
  change: (cell: Cell) => void;
}) {
  const shared = {
    "aria-label": `Value of ${name}`,
    "aria-describedby": note,
    "aria-invalid": isWrong,
    class: "mono",
    spellcheck: false,
  };
  const type = (text: string) => change({ type: cell.type, text });
  if (cell.type === "Edm.Boolean")
    return (
      <select {...shared} value={cell.text} onChange={(event) => type(event.currentTarget.value)}>
        <option value="true">true</option>
        <option value="false">false</option>
      </select>
    );
  if (cell.type === "Edm.Binary")
    return <BinaryValue shared={shared} cell={cell} type={type} name={name} />;
  if (cell.type === "Edm.String")
    return (
      <textarea
        {...shared}
        dir="auto"
        rows={Math.min(8, 1 + Math.floor(cell.text.length / 44) + cell.text.split("\n").length - 1)}
        value={cell.text}
        placeholder="∅ an empty string"
        onInput={(event) => type(event.currentTarget.value)}
      />
    );
  return (
    <input
      {...shared}
      type="text"
      autocomplete="off"
      value={cell.text}
      onInput={(event) => type(event.currentTarget.value)}
    />
  );
}

function BinaryValue({
  shared,
  cell,
  type,
  name,
}: {
  shared: object;
  cell: Cell;
  type: (text: string) => void;
  name: string;
}) {
  const isHex = useSignal(false);
  /** Digits that are no bytes yet. */
  const digits = useSignal<string | undefined>(undefined);
  const read = readValue("Edm.Binary", cell.text);
  const showsHex = isHex.value && "text" in read;
  return (
    <>
      <textarea
        {...shared}
        rows={Math.min(6, 1 + Math.floor(cell.text.length / 44))}
        value={showsHex ? (digits.value ?? hexOf(cell.text)) : cell.text}
        placeholder="∅ no bytes"
        onInput={(event) => {
          const { value } = event.currentTarget;
          if (!showsHex) return type(value);
          const base64 = base64OfHex(value);
          digits.value = base64 === undefined ? value : undefined;
          if (base64 !== undefined) type(base64);
        }}
      />
      <div class="field-tools">
        <label class="inline">
          <input
            type="checkbox"
            checked={showsHex}
            disabled={!("text" in read)}
            onChange={() => {
              isHex.value = !isHex.value;
              digits.value = undefined;
            }}
          />{" "}
          hexadecimal
        </label>
        <label class="inline">
          <span class="hidden">{name} from a file</span>
          <input
            type="file"
            onChange={async (event) => {
              const [file] = event.currentTarget.files ?? [];
              // One byte more than is allowed shows that it is too large, whatever its size.
              const part = file?.slice(0, LIMITS.binaryBytesMax + 1);
              if (part) type(base64Of(new Uint8Array(await part.arrayBuffer())));
            }}
          />
        </label>
      </div>
      {digits.value !== undefined && showsHex && (
        <p class="problem small">
          Two hexadecimal digits for each byte; the bytes stay as they were.
        </p>
      )}
    </>
  );
}

function hintOf({ type, text }: Cell): string {
  const read = readValue(type, text);
  if ("problem" in read) return "";
  if (type === "Edm.String") return text.length > 60 ? `${count(text.length)} characters` : "";
  if (type === "Edm.Binary") return bytes(bytesOf(read.text).length);
  if (type === "Edm.DateTime") {
    const time = new Date(read.text);
    return `${read.text === text ? "" : `stored as ${read.text} · `}here ${time.toLocaleString()}`;
  }
  return read.text === text ? "" : `stored as ${read.text}`;
}
