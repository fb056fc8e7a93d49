import type {
  AnyEntity,
  Database,
  Explanation,
  KeyShape,
  Openable,
  Segment,
} from "@rowhouse/patterns";

/** A way to read entities by their keys or by an index. */
export interface AccessPath {
  /** `Employee.by.email({ dept, email })`. */
  readonly name: string;
  /** The plan and cost, with example values. */
  readonly explanation: Explanation;
}

/** An opened definition, or one of its indexes, reduced to its queries by key. */
interface Readable {
  readonly range?: (query: Record<string, unknown>) => { explain(): Explanation };
  readonly by?: Readonly<Record<string, Readable>>;
}

/** Every query that the keys of `entity` and its indexes serve without a scan; for each key, the cheapest first. */
export function accessPathsOf(database: Database, entity: AnyEntity): AccessPath[] {
  const { rows, indexes, name } = entity;
  const opened = database.open(entity as AnyEntity & Openable<Readable>);
  const paths = pathsBy(name, opened, rows.partition, rows.row);
  for (const [index, definition] of Object.entries(indexes)) {
    const place = definition.place(entity);
    const readable = opened.by?.[index];
    if (!readable) continue;
    paths.push(...pathsBy(`${name}.by.${index}`, readable, place.partition, place.row));
  }
  return paths;
}

function pathsBy(
  name: string,
  readable: Readable,
  partition: KeyShape,
  row: KeyShape,
): AccessPath[] {
  if (!readable.range) return [];
  const paths: AccessPath[] = [];
  const hashed = row.segments.findIndex(({ form }) => form === "hashed");
  for (let bound = row.segments.length; bound >= 0; bound--) {
    // Segments from a hash on must all be given: a hash leaves its rows in no order.
    if (hashed >= 0 && bound <= hashed) continue;
    const segments = [...partition.segments, ...row.segments.slice(0, bound)];
    const query = Object.fromEntries(segments.map((each) => [each.name, exampleOf(each)]));
    const asked = `${name}({ ${Object.keys(query).join(", ")} })`;
    // The partition may be a hash of the last segments of the row key.
    if (paths.at(-1)?.name === asked) continue;
    paths.push({ name: asked, explanation: readable.range(query).explain() });
  }
  return paths;
}

const EXAMPLES: readonly unknown[] = [
  1,
  1n,
  new Date("2014-07-31T18:00:00Z"),
  true,
  "00000000-0000-4000-8000-000000000001",
  "01arz3ndektsv4rrffq69g5fav",
];

/** A value that the segment accepts: its own name if it accepts text. */
function exampleOf(segment: Segment): unknown {
  const candidates = [segment.name, ...EXAMPLES];
  const member = attempt(() => segment.decode("0"));
  for (const value of [...candidates, member]) {
    if (attempt(() => segment.encode(value, { escapeUnderscore: false })) !== undefined) {
      return value;
    }
  }
  throw new Error(`No example for the segment ${segment.name} is known.`);
}

function attempt(work: () => unknown): unknown {
  try {
    return work();
  } catch {
    return undefined;
  }
}
