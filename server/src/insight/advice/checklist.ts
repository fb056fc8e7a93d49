import { callersOf, hasDirectClients } from "./client-rules.ts";
import { type Observed, type RuleName, sumOf } from "./rule.ts";

/** A line of the published checklist: the rules that check it, or why none can. */
export interface ChecklistLine {
  readonly question: string;
  readonly rules: readonly RuleName[];
  readonly needs?: "data" | "refusals" | "clients";
  /** Why no server can judge the line. */
  readonly cannot?: string;
  /** Why this recording does not allow a judgement. */
  readonly cannotHere?: (observed: Observed) => string | undefined;
  /** A note next to "nothing found": what was checked, and what of the line was not. */
  readonly note?: (observed: Observed) => string;
}

/** Source: "Performance and scalability checklist for Table storage", "Design for querying". */
export const CHECKLIST: readonly ChecklistLine[] = [
  {
    question: "Is the load within the targets of account and partition?",
    rules: ["over-targets", "hot-partition"],
  },
  {
    question: "Are partition keys spread, without append-only or prepend-only inserts?",
    rules: ["append-only-keys", "one-partition"],
    note: ({ data }) =>
      data.size === 0 ? "whether a table is one partition, its data would tell" : "",
  },
  {
    question: "Are queries point and range queries, and scans rare and dense?",
    rules: ["scan", "or-over-keys"],
  },
  { question: "Do queries return only what is used?", rules: ["wide-answers", "scan"] },
  { question: "Is data kept as it is read (denormalized)?", rules: ["n-plus-one"] },
  { question: "Do writes of one partition travel together?", rules: ["single-writes"] },
  { question: "Are upserts used in place of a read and a write?", rules: ["read-before-write"] },
  {
    question: "Are values that are read together kept in one entity?",
    rules: ["series-as-entities"],
    needs: "data",
  },
  { question: "Is data that is only read in bulk kept in blobs?", rules: ["bulk-reads"] },
  { question: "Are large values kept in blobs?", rules: ["large-values"], needs: "data" },
  {
    question: "Are bodies JSON?",
    rules: [],
    cannot: "nothing to find: this server accepts no other form",
  },
  {
    question: "Do clients reach tables directly, by SAS and CORS, not through a proxy?",
    rules: ["page-access"],
    needs: "clients",
    cannotHere: (observed) =>
      hasDirectClients(observed)
        ? undefined
        : `requests came ${callersOf(observed)}; whether whoever sent them stands for others, a server does not see`,
    note: (observed) => `requests came ${callersOf(observed)}`,
  },
  {
    question: "Is the account in the clients' region, on a fast network?",
    rules: [],
    cannot: "the server does not see the way to it",
  },
  {
    question: "Are connections kept and used again?",
    rules: ["connections"],
    needs: "clients",
    note: ({ clients }) =>
      `connections opened for ${sumOf(clients, (each) => each.requests)} requests: ${sumOf(clients, (each) => each.connections)}`,
  },
  {
    question: "Are the clients' connection limits high enough, and parallelism bounded?",
    rules: [],
    cannot: "a server sees what was sent, not what waited in the client",
  },
  {
    question: "Is Nagle's algorithm off in the clients?",
    rules: [],
    cannot: "a client's socket options are not on the wire",
  },
  {
    question: "Are client libraries the newest?",
    rules: ["old-clients"],
    needs: "clients",
    note: () =>
      "retired libraries and older versions beside newer ones are known; what is newest today, a server does not know",
  },
  {
    question: "Do retries back off, and leave alone what cannot succeed?",
    rules: ["retries"],
    needs: "refusals",
  },
];

export interface LineVerdict {
  readonly question: string;
  readonly verdict: "nothing found" | "findings" | "cannot judge";
  /** The rules with findings, the reason, or what was checked. */
  readonly note: string;
}

/** Judges a line from the findings and from what could be checked. */
export function judgeLine(
  { question, rules, needs, cannot, cannotHere, note }: ChecklistLine,
  observed: Observed,
  found: ReadonlySet<RuleName>,
): LineVerdict {
  const { events, data, refusals, clients } = observed;
  const hits = rules.filter((rule) => found.has(rule));
  if (hits.length > 0) return { question, verdict: "findings", note: hits.join(", ") };
  const reason =
    cannot ??
    (needs === "data" && data.size === 0 ? "no data folder was given" : undefined) ??
    (needs === "refusals" && refusals === 0
      ? "nothing was refused; try it with serve --faults and --enforce-targets"
      : undefined) ??
    (events === 0 ? "the recording is empty" : undefined) ??
    (needs === "clients" && clients.length === 0
      ? "the server was killed before it wrote down who asked"
      : undefined) ??
    cannotHere?.(observed);
  if (reason !== undefined) return { question, verdict: "cannot judge", note: reason };
  return { question, verdict: "nothing found", note: note?.(observed) ?? "" };
}
