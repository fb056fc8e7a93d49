import type { Readable } from "node:stream";
import { buffer } from "node:stream/consumers";
import { TableClient } from "@azure/data-tables";
import { BlobServiceClient, type ContainerClient } from "@azure/storage-blob";
import type { TestServer } from "rowhouse/testing";

/** What several writers do, each in a partition and with blobs of its own, one step after the other. */
export const WRITERS = 3;
export const STEPS = 8;

/** Entities by row key and blobs by name: the number of the step that wrote them. */
export type State = ReadonlyMap<string, number>;

const ROWS = ["a", "b", "c"];

interface Step {
  readonly writes: readonly string[];
  readonly deletes: readonly string[];
  take(clients: Clients, writer: number, step: number): Promise<unknown>;
}

/** A small and a large write of either kind, and deletes of what they wrote. */
const KINDS: readonly Step[] = [
  {
    writes: ROWS,
    deletes: [],
    take: ({ table }, writer, step) =>
      table.submitTransaction(
        ROWS.map((rowKey) => [
          "upsert",
          { partitionKey: partitionOf(writer), rowKey, step, text: textOf(writer, step, 2000) },
          "Replace",
        ]),
      ),
  },
  blobStep("whole", (container, name, content) =>
    container.getBlockBlobClient(name).upload(content, content.length),
  ),
  {
    writes: [],
    deletes: ["a"],
    take: ({ table }, writer) => table.deleteEntity(partitionOf(writer), "a"),
  },
  blobStep("blocks", async (container, name, content) => {
    const blob = container.getBlockBlobClient(name);
    const half = content.length / 2;
    await blob.stageBlock("AAAA", content.subarray(0, half), half);
    await blob.stageBlock("BBBB", content.subarray(half), half);
    await blob.commitBlockList(["AAAA", "BBBB"]);
  }),
  {
    writes: ["b"],
    deletes: [],
    take: ({ table }, writer, step) => {
      const text = textOf(writer, step, 10);
      const entity = { partitionKey: partitionOf(writer), rowKey: "b", step, text };
      return table.upsertEntity(entity, "Replace");
    },
  },
  {
    writes: [],
    deletes: ["whole"],
    take: ({ container }, writer) => container.deleteBlob(`${partitionOf(writer)}/whole`),
  },
];

function blobStep(
  name: string,
  put: (container: ContainerClient, name: string, content: Buffer) => Promise<unknown>,
): Step {
  return {
    writes: [name],
    deletes: [],
    take: ({ container }, writer, step) => {
      // In a file of its own: larger than what fits a row.
      const content = Buffer.from(textOf(writer, step, 200_000 + 100_000 * (step % 3)));
      return put(container, `${partitionOf(writer)}/${name}`, content);
    },
  };
}

export class Clients {
  readonly table: TableClient;
  readonly container: ContainerClient;

  constructor({ connectionString }: Pick<TestServer, "connectionString">) {
    const options = { allowInsecureConnection: true, retryOptions: { maxRetries: 0 } };
    this.table = TableClient.fromConnectionString(connectionString, "history", options);
    const blobs = BlobServiceClient.fromConnectionString(connectionString, {
      retryOptions: { maxTries: 1 },
    });
    this.container = blobs.getContainerClient("history");
  }

  async prepare(): Promise<void> {
    await this.table.createTable();
    await this.container.create();
  }

  take(writer: number, step: number): Promise<unknown> {
    return kindOf(step).take(this, writer, step);
  }

  /** What is stored of a writer. @throws Error for an entity or blob that no step wrote as it is */
  async stateOf(writer: number): Promise<State> {
    const found = new Map<string, number>();
    const filter = `PartitionKey eq '${partitionOf(writer)}'`;
    for await (const { rowKey, step, text } of this.table.listEntities<{
      step: number;
      text: string;
    }>({ queryOptions: { filter } })) {
      check(`entity ${rowKey}`, text, writer, step);
      found.set(rowKey!, step);
    }
    const prefix = `${partitionOf(writer)}/`;
    for await (const { name } of this.container.listBlobsFlat({ prefix })) {
      const { readableStreamBody } = await this.container.getBlobClient(name).download();
      const text = (await buffer(readableStreamBody as Readable)).toString();
      const step = Number(/ (\d+)\n/.exec(text)?.[1]);
      check(`blob ${name}`, text, writer, step);
      found.set(name.slice(prefix.length), step);
    }
    return found;
  }
}

/** What is stored of a writer after so many steps. */
export function stateAfter(steps: number): State {
  const state = new Map<string, number>();
  for (let step = 0; step < steps; step++) {
    const { writes, deletes } = kindOf(step);
    for (const each of writes) state.set(each, step);
    for (const each of deletes) state.delete(each);
  }
  return state;
}

function kindOf(step: number): Step {
  return KINDS[step % KINDS.length]!;
}

function partitionOf(writer: number): string {
  return `writer-${writer}`;
}

function check(what: string, text: string, writer: number, step: number): void {
  if (text !== textOf(writer, step, text.length)) throw new Error(`The ${what} is torn.`);
}

/** Says on each line who wrote it and when, so that no part of it passes for another's. */
function textOf(writer: number, step: number, length: number): string {
  const line = `written by ${writer} at ${step}\n`;
  return line.repeat(Math.ceil(length / line.length)).slice(0, length);
}
