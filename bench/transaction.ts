import type { Case } from "./harness/case.ts";
import type { Question } from "./harness/question.ts";
import { throughputOf, timesFasterThan } from "./harness/reaches.ts";
import { TRANSACTION_ENTITIES } from "./load/requests.ts";

const cases = [1, 16].map(
  (clients): Case => ({
    name: `100 inserts, ${clients} ${clients === 1 ? "client" : "clients"}`,
    workload: { kind: "transaction" },
    dataset: { table: `entities${clients}`, entities: 10_000 },
    connections: clients,
    against: ["bare node:http", "raw LMDB", "azurite"],
    rows: TRANSACTION_ENTITIES,
    reaches: [throughputOf("raw LMDB", 0.5), timesFasterThan("azurite", 5)],
  }),
);

export const transaction: Question = {
  name: "transaction",
  asks: "How fast do entity group transactions load data?",
  run: (bench) => bench.compareAll(cases),
};
