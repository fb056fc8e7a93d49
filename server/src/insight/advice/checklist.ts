import { callersOf, hasDirectClients } from "./client-rules.ts";
import { counted, type Observed, type RuleName, sumOf } from "./rule.ts";

/** A line of the published checklist: the rules that check it, or why none can. */
export interface ChecklistLine {
  readonly question: string;
  readonly rules: readonly RuleName[];
  readonly needs?: "data" | "refusals" | "clients" | "queries" | "writes";
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
    question: "Is the load within the targets for accounts and partitions?",
    rules: ["over-targets", "hot-partition"],
  },
  {
    question: "Are partition keys spread, without append-only or prepend-only inserts?",
    rules: ["append-only-keys", "one-partition"],
    needs: "writes",
    note: ({ data }) =>
      data.size === 0 ? "without a data folder, tables of one partition are not detected" : "",
  },
  {
    question: "Are most queries point and range queries, and scans rare and dense?",
    rules: ["scan", "or-over-keys"],
    needs: "queries",
  },
  {
    question: "Is what belongs together in one partition, for transactions and ranges?",
    rules: ["many-partitions"],
    needs: "writes",
    note: ({ queries }) =>
      queries === 0 ? "without queries, nobody can say what belongs together" : "",
  },
  {
    question: "Do queries return only what is used?",
    rules: ["wide-answers", "scan"],
    needs: "queries",
  },
  {
    question: "Is data stored the way it is read (denormalized)?",
    rules: ["n-plus-one"],
    needs: "queries",
  },
  {
    question: "Are writes to one partition sent together?",
    rules: ["single-writes"],
    needs: "writes",
  },
  {
    question: "Are upserts used instead of a read and a write?",
    rules: ["read-before-write"],
    needs: "writes",
  },
  {
    question: "Are values that are read together stored in one entity?",
    rules: ["series-as-entities"],
    needs: "data",
  },
  {
    question: "Is data that is only read in bulk stored in blobs?",
    rules: ["bulk-reads"],
    needs: "queries",
  },
  { question: "Are large values stored in blobs?", rules: ["large-values"], needs: "data" },
  {
    question: "Are bodies JSON?",
    rules: [],
    cannot: "nothing to check: this server accepts only JSON",
  },
  {
    question: "Do clients reach tables directly, by SAS and CORS, instead of through a proxy?",
    rules: ["page-access"],
    needs: "clients",
    cannotHere: (observed) =>
      hasDirectClients(observed)
        ? undefined
        : `requests: ${callersOf(observed)}; a server cannot see whether a proxy sent them`,
    note: (observed) => `requests: ${callersOf(observed)}`,
  },
  {
    question: "Is the account in the clients' region, on a fast network?",
    rules: [],
    cannot: "a server cannot see the network between it and its clients",
  },
  {
    question: "Are connections reused?",
    rules: ["connections"],
    needs: "clients",
    note: ({ clients }) =>
      `${sumOf(clients, (each) => each.requests)} requests over ${counted(
        sumOf(clients, (each) => each.connections),
        "connection",
      )}`,
  },
  {
    question: "Are the clients' connection limits high enough, and parallelism bounded?",
    rules: [],
    cannot: "a server sees the requests that were sent, not those that waited in the client",
  },
  {
    question: "Is Nagle's algorithm off in the clients?",
    rules: [],
    cannot: "a server cannot see a client's socket options",
  },
  {
    question: "Are client libraries up to date?",
    rules: ["old-clients"],
    needs: "clients",
    note: () =>
      "checked for retired libraries and for older versions next to newer ones; a server does not know the newest version",
  },
  {
    question: "Do clients back off before they retry, and never retry what cannot succeed?",
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
  const { queries, writes, data, refusals, clients } = observed;
  const hits = rules.filter((rule) => found.has(rule));
  if (hits.length > 0) return { question, verdict: "findings", note: hits.join(", ") };
  const reason =
    cannot ??
    (needs === "data" && data.size === 0 ? "no data folder was given" : undefined) ??
    (needs === "refusals" && refusals === 0
      ? "no request was refused; record with serve --faults and --enforce-targets to test it"
      : undefined) ??
    (queries + writes === 0 ? "the recording is empty" : undefined) ??
    (needs === "queries" && queries === 0 ? "no query was recorded" : undefined) ??
    (needs === "writes" && writes === 0 ? "no write was recorded" : undefined) ??
    (needs === "clients" && clients.length === 0
      ? "the server was killed before it recorded its clients"
      : undefined) ??
    cannotHere?.(observed);
  if (reason !== undefined) return { question, verdict: "cannot judge", note: reason };
  return { question, verdict: "nothing found", note: note?.(observed) ?? "" };
}
