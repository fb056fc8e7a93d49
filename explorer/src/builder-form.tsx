import { useSignal } from "@preact/signals";
import { KEYS } from "./column-choice.ts";
import type { Built, Condition } from "./filter-builder.ts";
import { OPERATORS } from "./filter-text.ts";
import type { TableView } from "./table-view.ts";

const TYPES = [
  ...(["Edm.String", "Edm.Int32", "Edm.Int64", "Edm.Double"] as const),
  ...(["Edm.Boolean", "Edm.DateTime", "Edm.Guid", "Edm.Binary"] as const),
];
const SIGNS = { eq: "=", ne: "≠", lt: "<", le: "≤", gt: ">", ge: "≥" } as const;

interface FormProps {
  readonly built: Built;
  readonly view: TableView;
  /** Takes a change over into the filter; returns what is missing instead, if anything is. */
  readonly change: (built: Built) => string | undefined;
}

/** What is typed here stays here while it is incomplete; once it is a filter, the text follows. */
export function BuilderForm({ built, view, change }: FormProps) {
  const draft = useSignal<Built | undefined>(undefined);
  const missing = useSignal<string | undefined>(undefined);
  const shown = draft.value ?? built;
  const set = (next: Built) => {
    missing.value = change(next);
    draft.value = missing.value === undefined ? undefined : next;
  };
  const setCondition = (i: number, part: Partial<Condition>) =>
    set({
      ...shown,
      conditions: shown.conditions.map((each, j) => (i === j ? { ...each, ...part } : each)),
    });
  const setProperty = (i: number, property: string) => {
    const seen = KEYS.includes(property) ? "Edm.String" : view.columns.types.value.get(property);
    const type = TYPES.find((each) => each === seen);
    setCondition(i, { property, ...(type && { type }) });
  };
  const add = () =>
    set({
      ...shown,
      conditions: [
        ...shown.conditions,
        { property: "", operator: "eq", type: "Edm.String", value: "" },
      ],
    });
  return (
    <div class="builder">
      {shown.conditions.map((condition, i) => (
        <div class="condition" key={i}>
          {i === 0 ? (
            <span class="quiet">where</span>
          ) : (
            <select
              aria-label="Conditions that must hold"
              value={shown.join}
              onChange={(event) =>
                set({ ...shown, join: event.currentTarget.value === "or" ? "or" : "and" })
              }
            >
              <option value="and">and</option>
              <option value="or">or</option>
            </select>
          )}
          <input
            aria-label="Property"
            list="known-properties"
            value={condition.property}
            spellcheck={false}
            onInput={(event) => setProperty(i, event.currentTarget.value)}
          />
          <select
            aria-label="Comparison"
            value={condition.operator}
            onChange={(event) =>
              setCondition(i, {
                operator: OPERATORS.find((each) => each === event.currentTarget.value) ?? "eq",
              })
            }
          >
            {OPERATORS.map((operator) => (
              <option key={operator} value={operator}>
                {SIGNS[operator]} {operator}
              </option>
            ))}
          </select>
          <select
            aria-label="Type"
            value={condition.type}
            onChange={(event) =>
              setCondition(i, {
                type: TYPES.find((each) => each === event.currentTarget.value) ?? "Edm.String",
              })
            }
          >
            {TYPES.map((type) => (
              <option key={type} value={type}>
                {type.slice("Edm.".length)}
              </option>
            ))}
          </select>
          <input
            aria-label="Value"
            class="value"
            value={condition.value}
            spellcheck={false}
            onInput={(event) => setCondition(i, { value: event.currentTarget.value })}
          />
          <button
            type="button"
            class="plain"
            aria-label="Remove this condition"
            onClick={() =>
              set({ ...shown, conditions: shown.conditions.filter((_, j) => j !== i) })
            }
          >
            ✕
          </button>
        </div>
      ))}
      <div class="condition">
        <button type="button" class="link" onClick={add}>
          + condition
        </button>
        {missing.value && <span class="problem">{missing.value}</span>}
      </div>
      <datalist id="known-properties">
        {[...KEYS, ...view.columns.known.value].map((name) => (
          <option key={name} value={name} />
        ))}
      </datalist>
    </div>
  );
}
