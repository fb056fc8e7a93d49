import { describe, it } from "node:test";
import { LocalServer } from "@rowhouse/server/engine/postgres/test-server";
import { startRowhouse, withFolder } from "../support/rowhouse-process.ts";
import { seededRandom } from "../support/seeded-random.ts";
import { clientOf, type History, reached, work } from "./counters.ts";

const seed = Number(process.env.FAULTS_SEED ?? Date.now() % 1_000_000);
const faults = Number(process.env.FAULTS ?? 3);
const WORKERS = 6;
const WRITES_BETWEEN_FAULTS = 40;

describe(`Two front ends and their database, killed and restarted (seed ${seed}, FAULTS_SEED repeats it)`, () => {
  it(`lose no acknowledged transaction, show no partial one and recover from each of ${faults} faults`, async () => {
    await withFolder(async (folder) => {
      const database = await LocalServer.create();
      await database.start();
      const url = await database.createDatabase();
      const start = () =>
        startRowhouse(folder, ["--silent", "--engine", url, "--engineConnections", "6"]);
      const fronts = [await start(), await start()];
      try {
        await clientOf(fronts[0]!).createTable();
        const random = seededRandom(seed);
        const history: History = { acknowledged: 0, isOver: false };
        const workers = Array.from({ length: WORKERS }, (_, worker) =>
          work(worker, fronts, history),
        );
        for (let fault = 0; fault < faults; fault++) {
          await reached(history, (fault + 1) * WRITES_BETWEEN_FAULTS);
          if (random() < 0.4) {
            await database.stop("immediate");
            await database.start();
          } else {
            const victim = random() < 0.5 ? 0 : 1;
            await fronts[victim]!.kill();
            fronts[victim] = await start();
          }
        }
        await reached(history, (faults + 1) * WRITES_BETWEEN_FAULTS);
        history.isOver = true;
        await Promise.all(workers);
      } finally {
        await Promise.all(fronts.map((front) => front.kill()));
        await database.remove();
      }
    });
  });
});
