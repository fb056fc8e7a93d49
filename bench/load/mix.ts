import { type Dataset, PARTITION_ENTITIES } from "./dataset.ts";
import { type Requests, rareInPartition } from "./requests.ts";
import type { Client, Workload } from "./workload.ts";

/**
 * Every operation on entities, half of them reads. Inserted entities are deleted right away, so that the
 * table keeps its size.
 */
export function createMix(requests: Requests, dataset: Dataset): Workload {
  return {
    request(client) {
      if (client.pending !== "") return requests.delete(client.pending, client.etag);
      const dice = client.random(100);
      const index = client.random(dataset.entities);
      client.etag = "";
      if (dice < 40) return requests.get(index);
      if (dice < 49) return requests.range(client, 100);
      if (dice < 50) return requests.query(rareInPartition(index));
      if (dice < 70) return requests.put(index);
      if (dice < 84) return requests.merge(client);
      if (dice < 85) return requests.putAll(Math.min(index, lastStart(index)), NEIGHBOURS);
      return insertToDelete(client);
    },
    answered(client, answer) {
      const inserted = client.pending !== "" && client.etag === "";
      if (inserted && answer.status === 204) {
        client.etag = answer.header("etag") ?? "*";
        return "again";
      }
      client.pending = "";
      return answer.status < 300 ? "done" : "failed";
    },
  };

  function insertToDelete(client: Client): string {
    const { request, path } = requests.insert(client);
    client.pending = path;
    return request;
  }
}

const NEIGHBOURS = 10;

/** The last place in the partition of `index` that has enough neighbors after it. */
function lastStart(index: number): number {
  return index - (index % PARTITION_ENTITIES) + PARTITION_ENTITIES - NEIGHBOURS;
}
