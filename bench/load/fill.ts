import { type Dataset, entityJson, PARTITION_ENTITIES, scattered } from "./dataset.ts";
import { type Requests, TRANSACTION_ENTITIES, wholeTransaction } from "./requests.ts";
import type { LoadOrder, Workload } from "./workload.ts";

/**
 * Inserts the entities from `first` to the end of the dataset, a hundred of one partition at a
 * time; `fillBatches` says how many operations that takes. Both ends are whole partitions.
 */
export function createFill(
  requests: Requests,
  dataset: Dataset,
  { first, order }: { first: number; order: LoadOrder },
): Workload {
  const index = order === "sorted" ? sortedIndex(first) : scatteredIndex(first, dataset.entities);
  let started = 0;
  return {
    request() {
      const position = started++ * TRANSACTION_ENTITIES;
      return requests.insertAll(TRANSACTION_ENTITIES, (i) => entityJson(index(position + i)));
    },
    answered: (_client, answer) =>
      wholeTransaction(answer, TRANSACTION_ENTITIES) ? "done" : "failed",
  };
}

export function fillBatches(first: number, end: number): number {
  return (end - first) / TRANSACTION_ENTITIES;
}

type IndexOf = (position: number) => number;

function sortedIndex(first: number): IndexOf {
  return (position) => first + position;
}

/** Each transaction meets another partition, and in it a hundred rows far from each other. */
function scatteredIndex(first: number, end: number): IndexOf {
  const partitions = (end - first) / PARTITION_ENTITIES;
  return (position) => {
    const turn = Math.floor(position / TRANSACTION_ENTITIES);
    const partition = scattered(turn % partitions, partitions);
    const row = Math.floor(turn / partitions) * TRANSACTION_ENTITIES;
    const scatteredRow = scattered(row + (position % TRANSACTION_ENTITIES), PARTITION_ENTITIES);
    return first + partition * PARTITION_ENTITIES + scatteredRow;
  };
}
