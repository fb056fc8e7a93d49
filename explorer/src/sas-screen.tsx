import { useSignal } from "@preact/signals";
import { copyText } from "./copy-text.ts";
import { Failure } from "./failure.tsx";
import {
  type EntityKey,
  filterOutside,
  PERMISSIONS,
  parametersOf,
  problemOf,
  SAS_KINDS,
  type SasForm,
  type SasKind,
  sentenceOf,
  trialsOf,
} from "./sas-data.ts";
import { ServerError, type Signed, session, sign, wire } from "./session.ts";

const HOUR_MS = 3_600_000;
const ENDS = [
  ["an hour", 1],
  ["8 hours", 8],
  ["a day", 24],
  ["a week", 168],
  ["30 days", 720],
] as const;

interface Tried {
  readonly says: string;
  readonly isAllowed: boolean;
  readonly answer: string;
  readonly isAsExpected: boolean;
}

/** Makes a shared access signature, says what it opens, and tries it. */
export function SasScreen() {
  const form = useSignal<SasForm>({
    ...{ kind: "table", name: "", blob: "", permissions: "r", end: inHours(1) },
    ...{ addresses: "", isHttpsOnly: location.protocol === "https:" },
    keys: { fromPartition: "", fromRow: "", toPartition: "", toRow: "" },
  });
  const made = useSignal<Signed | undefined>(undefined);
  const tried = useSignal<readonly Tried[]>([]);
  const failure = useSignal<ServerError | undefined>(undefined);
  const isCopied = useSignal(false);
  const change = (to: Partial<SasForm>) => {
    form.value = { ...form.value, ...to };
    made.value = undefined;
    tried.value = [];
    isCopied.value = false;
  };
  const given = form.value;
  const problem = problemOf(given, Date.now());
  const attempt = async (work: () => Promise<void>) => {
    try {
      await work();
      failure.value = undefined;
    } catch (error) {
      if (!(error instanceof ServerError)) throw error;
      failure.value = error;
    }
  };
  const make = (event: Event) => {
    event.preventDefault();
    return attempt(async () => {
      made.value = await sign(parametersOf(given));
    });
  };
  const test = () =>
    attempt(async () => {
      const outside = given.kind === "table" ? await findOutside(given) : undefined;
      const trials = trialsOf(given, outside);
      tried.value = await Promise.all(trials.map((trial) => tryOut(trial, made.value!)));
    });
  const field = (label: string, key: keyof SasForm["keys"]) => (
    <label>
      {label}
      <input
        value={given.keys[key]}
        spellcheck={false}
        onInput={(event) => change({ keys: { ...given.keys, [key]: event.currentTarget.value } })}
      />
    </label>
  );
  if (session.value?.kind === "sas")
    return (
      <section class="insight" aria-labelledby="sas-title">
        <h1 id="sas-title">Shared access signature</h1>
        <p class="notice">A signature makes no other signatures: log in with the account's key.</p>
      </section>
    );
  return (
    <section class="insight" aria-labelledby="sas-title">
      <h1 id="sas-title">Shared access signature</h1>
      <form class="sas" onSubmit={make}>
        <div class="pair">
          <label>
            For
            <select
              value={given.kind}
              onChange={(event) => {
                const kind =
                  SAS_KINDS.find((each) => each === event.currentTarget.value) ?? "table";
                change({ kind, permissions: firstOf(kind) });
              }}
            >
              {SAS_KINDS.map((kind) => (
                <option key={kind} value={kind}>
                  {kind === "account" ? "the whole account" : `a ${kind}`}
                </option>
              ))}
            </select>
          </label>
          {given.kind !== "account" && (
            <label>
              {given.kind === "blob" ? "Container" : "Name"}
              <input
                value={given.name}
                spellcheck={false}
                onInput={(event) => change({ name: event.currentTarget.value })}
              />
            </label>
          )}
          {given.kind === "blob" && (
            <label>
              Blob
              <input
                value={given.blob}
                spellcheck={false}
                onInput={(event) => change({ blob: event.currentTarget.value })}
              />
            </label>
          )}
        </div>
        <fieldset class="permissions">
          <legend>It allows to</legend>
          {PERMISSIONS[given.kind].map(([letter, words]) => (
            <label key={letter} class="inline">
              <input
                type="checkbox"
                checked={given.permissions.includes(letter)}
                onChange={(event) => {
                  const others = given.permissions.replace(letter, "");
                  change({ permissions: event.currentTarget.checked ? others + letter : others });
                }}
              />
              {words}
            </label>
          ))}
        </fieldset>
        {given.kind === "table" && (
          <fieldset class="permissions">
            <legend>Range of keys, both ends included; empty for all</legend>
            {field("First partition key", "fromPartition")}
            {field("First row key", "fromRow")}
            {field("Last partition key", "toPartition")}
            {field("Last row key", "toRow")}
          </fieldset>
        )}
        <div class="pair">
          <label>
            Ends in
            <select
              onChange={(event) => change({ end: inHours(Number(event.currentTarget.value)) })}
            >
              {ENDS.map(([words, hours]) => (
                <option key={hours} value={hours}>
                  {words}
                </option>
              ))}
            </select>
          </label>
          <label>
            Addresses (all if empty)
            <input
              value={given.addresses}
              placeholder="10.0.0.1 or 10.0.0.1-10.0.0.9"
              onInput={(event) => change({ addresses: event.currentTarget.value.trim() })}
            />
          </label>
          <label class="inline">
            <input
              type="checkbox"
              checked={given.isHttpsOnly}
              onChange={(event) => change({ isHttpsOnly: event.currentTarget.checked })}
            />
            HTTPS only
          </label>
        </div>
        <p role="status" class={`verdict ${problem === undefined ? "free" : "fair"}`}>
          {problem ?? sentenceOf(given)}
        </p>
        <div>
          <button type="submit" class="primary" disabled={problem !== undefined}>
            Make it
          </button>
        </div>
      </form>
      {failure.value && <Failure error={failure.value} />}
      {made.value && (
        <div class="finding" role="group" aria-label="The signature">
          <pre>{addressOf(given, made.value.sas)}</pre>
          <p class="quiet small">
            Whoever reads it can use it, until it ends or the account's key is replaced. It begins
            at once; a client whose clock is behind needs no other start.
          </p>
          <div class="inline-form">
            <button
              type="button"
              onClick={async () => {
                isCopied.value = await copyText(addressOf(given, made.value!.sas));
              }}
            >
              {isCopied.value ? "Copied" : "Copy"}
            </button>
            <button type="button" onClick={test}>
              Test it
            </button>
          </div>
          {tried.value.length > 0 && (
            <ul aria-label="What was tried">
              {tried.value.map(({ says, isAllowed, answer, isAsExpected }) => (
                <li key={says}>
                  {isAsExpected ? "✓" : "✗"} to {says}: {answer}
                  {isAllowed ? "" : ": it should not open this"}
                  {!isAsExpected && " – not what was expected"}
                </li>
              ))}
            </ul>
          )}
        </div>
      )}
    </section>
  );
}

function inHours(hours: number): number {
  return Date.now() + hours * HOUR_MS;
}

function firstOf(kind: SasKind): string {
  return PERMISSIONS[kind][0]![0];
}

/** The page knows only the address of the tables. */
function addressOf({ kind, name, blob }: SasForm, sas: string): string {
  const account = session.value?.account ?? "";
  if (kind === "account") return `${location.origin}/${account}?${sas}`;
  if (kind === "table") return `${location.origin}/${account}/${name}?${sas}`;
  const path = kind === "blob" ? `${name}/${blob}` : name;
  return `${kind === "queue" ? "QUEUE" : "BLOB"}-ENDPOINT/${path}?${sas}`;
}

/** An entity that the range of keys does not hold, found with the rights of whoever makes the signature. */
async function findOutside({ name, keys }: SasForm): Promise<EntityKey | undefined> {
  const $filter = filterOutside(keys);
  if ($filter === undefined) return undefined;
  const query = { $filter, $top: "1", $select: "PartitionKey,RowKey" };
  const answer = await wire({ path: `/${name}()`, query });
  const { value } = (await answer.json()) as { readonly value: readonly EntityKey[] };
  return value[0];
}

async function tryOut(
  trial: ReturnType<typeof trialsOf>[number],
  { token }: Signed,
): Promise<Tried> {
  const { says, isAllowed, service, path, query } = trial;
  const told = (answer: string, isOpen: boolean) => ({
    ...{ says, isAllowed, answer },
    isAsExpected: isOpen === isAllowed,
  });
  try {
    const answer = await wire({ path, query, token, ...(service && { service }) });
    return told(`${answer.status}, allowed`, true);
  } catch (error) {
    if (!(error instanceof ServerError) || error.status === 0) throw error;
    // What is outside of a range of keys is answered as if it were not there; all else that is not there was not refused.
    const isHidden = error.code === "ResourceNotFound" && !isAllowed;
    const isRefused = error.status === 403 || error.status === 401 || isHidden;
    const result = isHidden ? "hidden" : isRefused ? "refused" : "allowed, but not done";
    return told(`${error.status} ${error.code}, ${result}`, !isRefused);
  }
}
