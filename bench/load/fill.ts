import { type Dataset, entityJson, PARTITION_ENTITIES, scattered } from "./dataset.ts";
import { type Requests, TRANSACTION_ENTITIES, wholeTransaction } from "./requests.ts";
import type { LoadOrder, Workload } from "./workload.ts";

/**
 * Inserts the entities of the dataset, a hundred of one partition at a time; `fillTransactions`
 * says how many operations the whole of it takes. Datasets are whole partitions.
 */
export function createFill(
  requests: Requests,
  dataset: Dataset,
  { firstTransaction, order }: { firstTransaction: number; order: LoadOrder },
): Workload {
  const index = order === "sorted" ? (i: number) => i : scatteredIndex(dataset.entities);
  let next = firstTransaction;
  return {
    request() {
      const position = next++ * TRANSACTION_ENTITIES;
      return requests.insertAll(TRANSACTION_ENTITIES, (i) => entityJson(index(position + i)));
    },
    answered: (_client, answer) =>
      wholeTransaction(answer, TRANSACTION_ENTITIES) ? "done" : "failed",
  };
}

export function fillTransactions(entities: number): number {
  return entities / TRANSACTION_ENTITIES;
}

/** Each transaction meets another partition, and in it a hundred rows far from each other. */
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
