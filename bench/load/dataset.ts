/**
 * The entities that every contender holds: numbered from 0, 10,000 to a partition, about 1 KB of JSON each.
 * The number determines the entity, so client, limits and checks need no list. In a question about queues or
 * blobs, a queue or a container takes the table's place and starts empty.
 */
export interface Dataset {
  readonly table: string;
  readonly entities: number;
  /** Whether row keys and entities differ in length, as in most real tables. Default: no. */
  readonly varied?: boolean;
}

export const PARTITION_ENTITIES = 10_000;

/** One entity in a hundred has this value in `Bucket`, in every range longer than 100. */
export const RARE_BUCKET = 42;

export function partitionKey(index: number): string {
  return `dept-${String(Math.floor(index / PARTITION_ENTITIES)).padStart(5, "0")}`;
}

export function rowKey(index: number, { varied }: Pick<Dataset, "varied"> = {}): string {
  const key = `emp-${String(index % PARTITION_ENTITIES).padStart(8, "0")}`;
  return varied ? key + "-of-the-harbour".slice(0, (index * 7) % 16) : key;
}

/** The body of an insert. `row` replaces the row key that belongs to the number. */
export function entityJson(index: number, row = rowKey(index)): string {
  return `{"PartitionKey":"${partitionKey(index)}","RowKey":"${row}",${propertiesJson(index)}}`;
}

/** The same without the text that fills it up: 200 bytes. */
export function smallEntityJson(index: number, row: string): string {
  return (
    `{"PartitionKey":"${partitionKey(index)}","RowKey":"${row}","Name":"Ada Nowak ${index}",` +
    `"Email":"ada.nowak.${index}@example.com","Bucket":${index % 100},"Active":true,` +
    `"Notes":"Keeps the ledger of the night ferries."}`
  );
}

/** The same with 0 to 400 bytes of text more. */
export function variedJson(index: number): string {
  const more = SENTENCE.repeat(6).slice(0, (index * 131) % 401);
  return `${entityJson(index, rowKey(index, { varied: true })).slice(0, -1)},"More":"${more}"}`;
}

/** Without the keys, which are in the URL of an upsert. */
export function propertiesJson(index: number): string {
  return (
    `"Name":"Ada Nowak ${index}","Email":"ada.nowak.${index}@example.com","Bucket":${index % 100},` +
    `"Salary":${40_000 + (index % 7) * 1_500},"Rating":${index % 5}.25,"Active":true,` +
    `"HiredAt@odata.type":"Edm.DateTime","HiredAt":"2019-03-14T09:26:53.589793Z",` +
    `"Badge@odata.type":"Edm.Int64","Badge":"90071992547${index}",` +
    NOTES
  );
}

/** Text fills the entity up to 1 KB, like a note or a document in a real table. */
const SENTENCE = "Joined from the harbour office, keeps the ledger of the night ferries. ";
const NOTES = `"Notes":"${SENTENCE.repeat(10)}"`;

/**
 * Visits 0 … count-1 in a scattered order: the step is near the golden ratio of the range and coprime to it,
 * so that successive visits are far apart in the key space.
 */
export function scattered(position: number, count: number): number {
  return Number((BigInt(position) * BigInt(scatterStep(count))) % BigInt(count));
}

const steps = new Map<number, number>();

function scatterStep(count: number): number {
  let step = steps.get(count);
  if (step === undefined) {
    step = Math.max(1, Math.round(count * 0.618_033_988_75));
    while (greatestCommonDivisor(step, count) !== 1) step++;
    steps.set(count, step);
  }
  return step;
}

function greatestCommonDivisor(a: number, b: number): number {
  return b === 0 ? a : greatestCommonDivisor(b, a % b);
}
