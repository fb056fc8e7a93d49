/**
 * Lists a million entities of a hundred partitions in order and watches the front end's memory:
 *
 *   node --conditions=rowhouse-source --import tsx tests/postgres/ordered-scan-long-run.ts [entities]
 */
import { scanInOrder } from "./ordered-scan.ts";

const { entities, memoryAtStartKb, memoryKb, milliseconds, pages } = await scanInOrder(
  Number(process.argv[2] ?? 1_000_000),
  (what) => console.log(what),
);
console.log(
  `${entities} entities in order, ${pages} pages, ${(milliseconds / 1000).toFixed(1)} s: ` +
    `${Math.round((entities * 1000) / milliseconds)} entities/s`,
);
const mib = (kb: number) => (kb / 1024).toFixed(0).padStart(5);
console.log(
  `RssAnon of the front end in MiB: ${mib(memoryAtStartKb)} at start, ${mib(Math.max(...memoryKb))} at its peak, ` +
    `${mib(memoryKb.at(-1)!)} at the end`,
);
for (let tenth = 0; tenth < 10; tenth++) {
  const part = memoryKb.slice((tenth * pages) / 10, ((tenth + 1) * pages) / 10);
  const mib = (kb: number) => (kb / 1024).toFixed(0).padStart(5);
  console.log(
    `  tenth ${String(tenth + 1).padStart(2)}: ${mib(Math.min(...part))} to ${mib(Math.max(...part))}`,
  );
}
