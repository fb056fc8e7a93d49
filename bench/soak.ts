import { folderBytes } from "./harness/folder-bytes.ts";
import { type Measurement, median, medianOf } from "./harness/measurement.ts";
import type { Question } from "./harness/question.ts";
import { finding, rounded } from "./harness/results.ts";
import type { Dataset } from "./load/dataset.ts";
import { RequestWriter, type Target } from "./load/request-writer.ts";
import { Requests } from "./load/requests.ts";
import { SlowReader } from "./load/slow-reader.ts";

interface Sample extends Measurement {
  readonly folderMb: number;
}

/**
 * Mixes all operations for the given time and compares the beginning with the end. Slow readers keep pages in
 * flight throughout: a server that held its snapshot for one of them could not reuse any page of its file,
 * and the folder's size would show it.
 */
export const soak: Question = {
  name: "soak",
  asks: "Do memory, latency and file size stay stable under hours of all operations at once?",
  async run(bench) {
    const { minutes = bench.options.short ? 0.7 : 10, short } = bench.options;
    const work = {
      workload: { kind: "mix" },
      dataset: { table: "entities", entities: short ? 10_000 : 100_000 },
      connections: 32,
    } as const;
    const rowhouse = await bench.rowhouse();
    await rowhouse.prepare(work);
    const slowReaders = startSlowReaders(rowhouse.server.target, work.dataset);
    const samples: Sample[] = [];
    const windowMs = Math.min(30_000, (minutes * 60_000) / 30);
    const endsAt = performance.now() + minutes * 60_000;
    while (performance.now() < endsAt) {
      const measurement = await rowhouse.measure(work, { warmUpMs: 0, windowMs });
      const folderMb = folderBytes(bench.folder(rowhouse.name)) / 2 ** 20;
      samples.push({ ...measurement, folderMb });
      bench.progress.show(
        `soak: ${rounded(measurement.operationsPerSecond)}/s, p99 ${rounded(measurement.p99Ms)} ms, ` +
          `${rounded(measurement.privateMemoryMb)} MiB private, ${rounded(folderMb)} MiB on disk`,
      );
    }
    const cut = slowReaders.filter(({ isCut }) => isCut).length;
    const bytesRead = slowReaders.map((reader) => reader.bytesRead);
    for (const reader of slowReaders) reader.close();
    const third = Math.ceil(samples.length / 3);
    const change = (field: keyof Sample) =>
      median(samples.slice(-third).map((sample) => sample[field])) /
      median(samples.slice(0, third).map((sample) => sample[field]));
    bench.record({
      name: `${rounded(minutes)} minutes of all operations, ${work.dataset.entities} entities`,
      contenders: [{ name: rowhouse.name, median: medianOf(samples), rounds: samples }],
      findings: [
        finding("private memory, last third over first", change("privateMemoryMb"), {
          atMost: 1.2,
        }),
        finding("p50, last third over first", change("p50Ms"), { atMost: 1.3 }),
        finding("p99, last third over first", change("p99Ms"), { atMost: 1.5 }),
        finding("data folder, last third over first", change("folderMb"), { atMost: 1.2 }),
        finding("slow readers cut off", cut, { atMost: 0 }),
        finding("bytes a slow reader took", median(bytesRead), { atLeast: 1 }),
        finding(
          "failed operations",
          samples.reduce((sum, { failures }) => sum + failures, 0),
          {
            atMost: 0,
          },
        ),
      ],
    });
  },
};

function startSlowReaders(target: Target, dataset: Dataset): SlowReader[] {
  const requests = new Requests(new RequestWriter(target), dataset);
  return Array.from(
    { length: SLOW_READERS },
    () =>
      new SlowReader(
        target,
        Array.from({ length: PAGES_EACH }, () => requests.table()),
      ),
  );
}

const SLOW_READERS = 4;
/** Pages of 1 MB. The buffers of a connection may hold a few of them, not all. */
const PAGES_EACH = 64;
