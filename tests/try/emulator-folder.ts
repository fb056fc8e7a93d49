import { closeSync, mkdirSync, openSync, writeSync } from "node:fs";
import { join } from "node:path";

const ACCOUNT = "devstoreaccount1";
const TIME = "2026-11-28T15:44:07.8045940Z";

/** A folder as the emulator leaves it: a table `Types`, whose entities have a property of each type. */
export function writeEmulatorFolder(folder: string, entities: number): void {
  mkdirSync(folder, { recursive: true });
  const file = openSync(join(folder, "__azurite_db_table__.json"), "w");
  const tables = JSON.stringify([{ account: ACCOUNT, table: "Types", $loki: 1 }]);
  writeSync(
    file,
    `{"filename":"x","collections":[{"name":"$TABLES_COLLECTION$","data":${tables}},{"name":"${ACCOUNT}$Types","data":[`,
  );
  for (let from = 0; from < entities; from += 1000) {
    const rows = Array.from({ length: Math.min(1000, entities - from) }, (_, i) => row(from + i));
    writeSync(file, `${from > 0 ? "," : ""}${rows.join()}`);
  }
  writeSync(file, `]}],"databaseVersion":1.5}`);
  closeSync(file);
}

function row(number: number): string {
  return JSON.stringify({
    PartitionKey: `p${String(Math.floor(number / 300)).padStart(4, "0")}`,
    RowKey: `r${String(number).padStart(8, "0")}`,
    properties: {
      Text: `a "quoted" text, é ${number}`,
      Whole: 1,
      "Whole@odata.type": "Edm.Double",
      Int: number,
      Big: "9007199254740993",
      "Big@odata.type": "Edm.Int64",
      Yes: number % 2 === 0,
      When: "2026-01-02T03:04:05.1234567Z",
      "When@odata.type": "Edm.DateTime",
      Id: Buffer.from("c9da6455-213d-42c9-9a79-3e9149a57833").toString("base64"),
      "Id@odata.type": "Edm.Guid",
      Bytes: "AQID",
      "Bytes@odata.type": "Edm.Binary",
      Timestamp: TIME,
      "Timestamp@odata.type": "Edm.DateTime",
    },
    lastModifiedTime: TIME,
    eTag: `W/"datetime'2026-11-28T15%3A44%3A07.8045940Z'"`,
    meta: { revision: 0, created: 1, version: 0 },
    $loki: number + 1,
  });
}
