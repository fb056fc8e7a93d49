import { type Dataset, entityJson, PARTITION_ENTITIES, scattered, variedJson } from "./dataset.ts";
import { type Requests, TRANSACTION_ENTITIES, wholeTransaction } from "./requests.ts";
import type { LoadOrder, Workload } from "./workload.ts";

/**
 * Inserts the entities of the dataset, a hundred of one partition at a time; `fillTransactions` returns how
 * many operations that takes. Datasets consist of whole partitions.
 */
export function createFill(
  requests: Requests,
  dataset: Dataset,
  { firstTransaction, order }: { firstTransaction: number; order: LoadOrder },
): Workload {
  const index = order === "sorted" ? (i: number) => i : scatteredIndex(dataset.entities);
  const toJson = (i: number) => (dataset.varied ? variedJson(i) : entityJson(i));
  let next = firstTransaction;
  return {
    request() {
      const position = next++ * TRANSACTION_ENTITIES;
      return requests.insertAll(TRANSACTION_ENTITIES, (i) => toJson(index(position + i)));
    },
    answered: (_client, answer) =>
      wholeTransaction(answer, TRANSACTION_ENTITIES) ? "done" : "failed",
  };
}

export function fillTransactions(entities: number): number {
  return entities / TRANSACTION_ENTITIES;
}

/** Each transaction writes to another partition than the last, and in it a hundred rows far from each other. */
function scatteredIndex(entities: number): (position: number) => number {
  const partitions = entities / PARTITION_ENTITIES;
  return (position) => {
    const turn = Math.floor(position / TRANSACTION_ENTITIES);
    const partition = scattered(turn % partitions, partitions);
    const row = Math.floor(turn / partitions) * TRANSACTION_ENTITIES;
    const scatteredRow = scattered(row + (position % TRANSACTION_ENTITIES), PARTITION_ENTITIES);
    return partition * PARTITION_ENTITIES + scatteredRow;
  };
}
