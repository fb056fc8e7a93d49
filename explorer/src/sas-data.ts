/** What a signature opens, as the form has it. */
export interface SasForm {
  readonly kind: SasKind;
  /** A table, a queue or a container; "" for an account. */
  readonly name: string;
  readonly blob: string;
  /** Letters, such as `rl`. */
  readonly permissions: string;
  /** Milliseconds since 1970. */
  readonly end: number;
  /** An address or a range of them; "" for all. */
  readonly addresses: string;
  readonly isHttpsOnly: boolean;
  readonly keys: KeyRange;
}

/** "" where a bound is not given. */
export interface KeyRange {
  readonly fromPartition: string;
  readonly fromRow: string;
  readonly toPartition: string;
  readonly toRow: string;
}

export const SAS_KINDS = ["table", "queue", "container", "blob", "account"] as const;
export type SasKind = (typeof SAS_KINDS)[number];

/** In the order that the services require. */
export const PERMISSIONS: Readonly<Record<SasKind, readonly (readonly [string, string])[]>> = {
  table: [
    ["r", "read entities"],
    ["a", "add entities"],
    ["u", "update entities"],
    ["d", "delete entities"],
  ],
  queue: [
    ["r", "peek, and read metadata"],
    ["a", "put messages"],
    ["u", "update messages"],
    ["p", "receive and delete messages"],
  ],
  container: [
    ["r", "read blobs"],
    ["a", "append to blobs"],
    ["c", "create blobs"],
    ["w", "write blobs"],
    ["d", "delete blobs"],
    ["l", "list blobs"],
  ],
  blob: [
    ["r", "read it"],
    ["a", "append to it"],
    ["c", "create it"],
    ["w", "write it"],
    ["d", "delete it"],
  ],
  account: [
    ["r", "read"],
    ["w", "write"],
    ["d", "delete"],
    ["l", "list"],
    ["a", "add"],
    ["c", "create"],
    ["u", "update"],
    ["p", "receive messages"],
  ],
};

const VERSION = "2019-02-02";

/** All parameters but the signature, and what is signed with them. */
export function parametersOf(form: SasForm): {
  readonly service: "account" | "table" | "queue" | "blob";
  readonly resource: string;
  readonly parameters: Record<string, string>;
} {
  const { kind, name, blob, end, addresses, isHttpsOnly, keys } = form;
  const given = {
    sv: VERSION,
    ...(kind === "account" && { ss: "btq", srt: "sco" }),
    ...(kind === "table" && { tn: name }),
    ...(kind === "container" && { sr: "c" }),
    ...(kind === "blob" && { sr: "b" }),
    sp: ordered(form),
    se: seconds(end),
    sip: addresses,
    spr: isHttpsOnly ? "https" : "",
    ...(kind === "table" && {
      ...{ spk: keys.fromPartition, srk: keys.fromRow },
      ...{ epk: keys.toPartition, erk: keys.toRow },
    }),
  };
  const parameters = Object.fromEntries(Object.entries(given).filter(([, value]) => value !== ""));
  const service = kind === "container" || kind === "blob" ? "blob" : kind;
  return { service, resource: kind === "blob" ? `${name}/${blob}` : name, parameters };
}

function ordered({ kind, permissions }: SasForm): string {
  return PERMISSIONS[kind]
    .map(([letter]) => letter)
    .filter((letter) => permissions.includes(letter))
    .join("");
}

function seconds(at: number): string {
  return `${new Date(at).toISOString().slice(0, 19)}Z`;
}

/** Why a signature cannot be made of it; undefined if it can. */
export function problemOf(form: SasForm, now: number): string | undefined {
  const { kind, name, blob, end, keys } = form;
  if (kind !== "account" && name.trim() === "")
    return `Name the ${kind === "blob" ? "container" : kind}.`;
  if (kind === "blob" && blob.trim() === "") return "Name the blob.";
  if (ordered(form) === "") return "Choose what it allows.";
  if (!(end > now)) return "It would have ended already.";
  if (keys.fromRow !== "" && keys.fromPartition === "")
    return "A first row key needs a first partition key.";
  if (keys.toRow !== "" && keys.toPartition === "")
    return "A last row key needs a last partition key.";
  if (isEmptyRange(keys)) return "The range ends before it begins: it holds no entity.";
  return undefined;
}

function isEmptyRange({ fromPartition, fromRow, toPartition, toRow }: KeyRange): boolean {
  if (fromPartition === "" || toPartition === "") return false;
  if (fromPartition !== toPartition) return fromPartition > toPartition;
  return fromRow !== "" && toRow !== "" && fromRow > toRow;
}

/** What the signature opens, in a sentence. */
export function sentenceOf(form: SasForm, zone?: string): string {
  const { kind, name, blob, end, addresses, isHttpsOnly, permissions } = form;
  const allowed = PERMISSIONS[kind]
    .filter(([letter]) => permissions.includes(letter))
    .map(([, words]) => words);
  const what = {
    table: `the table ${name}`,
    queue: `the queue ${name}`,
    container: `the container ${name}`,
    blob: `the blob ${name}/${blob}`,
    account: "all tables, queues and blobs of the account",
  }[kind];
  const range = kind === "table" ? rangeOf(form.keys) : "";
  const where = addresses === "" ? "" : `, from ${addresses} only`;
  return `Whoever has it may ${listed(allowed)} in ${what}${range}, until ${timeOf(end, zone)}${where}${isHttpsOnly ? ", over HTTPS only" : ""}.`;
}

function rangeOf({ fromPartition, fromRow, toPartition, toRow }: KeyRange): string {
  if (fromPartition === "" && toPartition === "") return "";
  const place = (partition: string, row: string) =>
    row === "" ? `“${partition}”` : `(“${partition}”, “${row}”)`;
  if (fromPartition === toPartition && fromRow === "" && toRow === "")
    return `, partition ${place(fromPartition, "")} alone`;
  const from = fromPartition === "" ? "" : ` from ${place(fromPartition, fromRow)}`;
  const to = toPartition === "" ? "" : ` to ${place(toPartition, toRow)} inclusive`;
  return `, rows${from}${to}`;
}

function timeOf(at: number, zone: string | undefined): string {
  const local = new Date(at).toLocaleString("en-GB", {
    ...{ dateStyle: "medium", timeStyle: "short" },
    ...(zone !== undefined && { timeZone: zone }),
  });
  return `${local} (${seconds(at).slice(0, 16)}Z)`;
}

function listed(words: readonly string[]): string {
  return words.length < 2 ? words.join("") : `${words.slice(0, -1).join(", ")} and ${words.at(-1)}`;
}

/** A request that changes nothing, and whether the signature should open it. */
export interface Trial {
  readonly says: string;
  readonly isAllowed: boolean;
  readonly service?: "queue" | "blob";
  readonly path: string;
  readonly query: Readonly<Record<string, string>>;
}

export interface EntityKey {
  readonly PartitionKey: string;
  readonly RowKey: string;
}

/** A filter that finds what is outside of a range of keys; undefined where nothing is. */
export function filterOutside({
  fromPartition,
  fromRow,
  toPartition,
  toRow,
}: KeyRange): string | undefined {
  const beyond = (partition: string, row: string, compares: "lt" | "gt") => {
    if (partition === "") return [];
    const there = literalOf(partition);
    const rows = `PartitionKey eq ${there} and RowKey ${compares} ${literalOf(row)}`;
    return [`PartitionKey ${compares} ${there}`, ...(row === "" ? [] : [`(${rows})`])];
  };
  const clauses = [...beyond(fromPartition, fromRow, "lt"), ...beyond(toPartition, toRow, "gt")];
  return clauses.length === 0 ? undefined : clauses.join(" or ");
}

function literalOf(key: string): string {
  return `'${key.replaceAll("'", "''")}'`;
}

/**
 * One request that the signature allows and one that it refuses, as far as some can be tried without any change.
 * @param outside an entity outside of the range of keys; of one that does not exist, nobody can tell a refusal
 */
export function trialsOf({ kind, name, blob, permissions }: SasForm, outside?: EntityKey): Trial[] {
  const may = (letter: string) => permissions.includes(letter);
  const trial = (
    isAllowed: boolean,
    says: string,
    path: string,
    query = {},
    service?: "queue" | "blob",
  ) => ({
    ...{ isAllowed, says, path, query },
    ...(service && { service }),
  });
  const literal = (key: string) => encodeURIComponent(literalOf(key));
  switch (kind) {
    case "table": {
      const { PartitionKey, RowKey } = outside ?? { PartitionKey: "", RowKey: "" };
      const key = `PartitionKey=${literal(PartitionKey)},RowKey=${literal(RowKey)}`;
      return [
        ...(may("r") ? [trial(true, "read its first entity", `/${name}()`, { $top: "1" })] : []),
        may("r") && outside
          ? trial(false, `read “${PartitionKey}”, “${RowKey}”`, `/${name}(${key})`)
          : trial(false, "list the tables of the account", "/Tables"),
      ];
    }
    case "queue":
      return [
        ...(may("r")
          ? [trial(true, "read its metadata", `/${name}`, { comp: "metadata" }, "queue")]
          : []),
        trial(false, "list the queues of the account", "", { comp: "list" }, "queue"),
      ];
    case "container":
      return [
        trial(
          may("l"),
          "list its blobs",
          `/${name}`,
          { restype: "container", comp: "list" },
          "blob",
        ),
        trial(false, "list the containers of the account", "", { comp: "list" }, "blob"),
      ];
    case "blob": {
      const path = `/${name}/${blob.split("/").map(encodeURIComponent).join("/")}`;
      return [
        ...(may("r") ? [trial(true, "read its metadata", path, { comp: "metadata" }, "blob")] : []),
        trial(
          false,
          "list its container",
          `/${name}`,
          { restype: "container", comp: "list" },
          "blob",
        ),
      ];
    }
    case "account":
      return [trial(may("l"), "list the queues", "", { comp: "list" }, "queue")];
  }
}
