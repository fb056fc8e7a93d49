import { ServiceError } from "@rowhouse/protocol/errors";
import type { Catalog } from "../../catalog/catalog.ts";
import type { Clock } from "../../clock.ts";
import { type Engine, type Entry, type Key, PREMISE_FAILED } from "../../engine/engine.ts";
import {
  after,
  copyKey,
  decodeText,
  equalBytes,
  partitionPrefixRange,
} from "../../engine/key-codec.ts";
import type { KeyPosition } from "../../query/plan.ts";
import { recordOf } from "../entity-record.ts";
import { RecordView } from "../record-view.ts";
import { entityKey, positionKey, tablePrefix } from "../table-keys.ts";
import type { TableValue } from "../table-value.ts";
import type { IndexCatalog, KeptIndex } from "./index-catalog.ts";
import {
  baseOf,
  entryOf,
  type IndexEntry,
  isSameEntry,
  type OpenIndex,
  openIndex,
} from "./open-index.ts";

export interface IndexCheckOptions {
  readonly engine: Engine;
  readonly catalog: Catalog<TableValue>;
  readonly indexes: IndexCatalog;
  readonly clock: Clock;
}

/** Where a check goes on: first over the entities, then over the entries. */
export interface CheckPosition extends KeyPosition {
  readonly over: "entities" | "entries";
}

/**
 * What is wrong with an entry. `missing`: an entity has none. `altered`: it does not say what the entity says.
 * `surplus`: it stands for no entity, or for one whose entry is another.
 */
export type EntryFault = "missing" | "altered" | "surplus";

/** The result of one piece of a check. */
export interface CheckedPiece {
  readonly next: CheckPosition | undefined;
  readonly entities: number;
  readonly entries: number;
  readonly findings: Readonly<Record<EntryFault, number>>;
  /** The first few. */
  readonly examples: readonly { readonly finding: EntryFault; readonly entity: KeyPosition }[];
}

const START: CheckPosition = { over: "entities", partitionKey: "", rowKey: "" };
const CHUNK = 250;
/** Of a piece: no client waits longer, and no snapshot is held. */
const PIECE_ROWS = 50_000;
const PIECE_MS = 4000;
const EXAMPLES_MAX = 10;
/** An entity that changes all the time is looked at this often. */
const LOOKS_MAX = 10;
const LOOKS_TO_REPAIR_MAX = 1000;

/**
 * Compares an index with its table, in both directions, beside writers.
 *
 * What looks wrong is looked at again in one snapshot that shows the entity together with the entry, so writers cause
 * no finding. A repair is a commit with only one justification: the entity as it is at that moment. It can therefore not
 * remove an entry that an entity needs, however many writers or other repairs run beside it.
 */
export class IndexCheck {
  readonly #options: IndexCheckOptions;

  constructor(options: IndexCheckOptions) {
    this.#options = options;
  }

  /**
   * Checks one piece. A finding of a missing or altered entry makes a ready index stale; a repair that reaches the end
   * makes a stale one ready. If the table's indexes change, the piece ends where the next one goes on with them.
   * @throws ServiceError ResourceNotFound; ServerBusy if an entity changes too often to be repaired
   */
  async piece(
    account: string,
    name: string,
    {
      from = START,
      repairs,
      rows = PIECE_ROWS,
    }: {
      readonly from?: CheckPosition | undefined;
      readonly repairs: boolean;
      readonly rows?: number;
    },
  ): Promise<CheckedPiece> {
    const { clock, indexes } = this.#options;
    const kept = await indexes.findOrThrow(account, name);
    const piece = new Piece(this.#options, account, kept, repairs, from);
    const deadline = clock.now() + PIECE_MS;
    while (piece.next && piece.rows < rows && clock.now() <= deadline && !piece.isOutdated) {
      await piece.chunk();
    }
    const { findings } = piece;
    if (repairs) {
      if (piece.next === undefined) await indexes.move(account, kept, ["stale"], "ready");
    } else if (kept.index.state === "ready" && findings.missing + findings.altered > 0) {
      await indexes.move(account, kept, ["ready"], "stale");
    }
    return piece;
  }
}

class Piece implements CheckedPiece {
  next: CheckPosition | undefined;
  entities = 0;
  entries = 0;
  readonly findings = { missing: 0, altered: 0, surplus: 0 };
  readonly examples: { finding: EntryFault; entity: KeyPosition }[] = [];
  /** Whether the table's indexes have changed, so that nothing more can be repaired on the old premise. */
  isOutdated = false;
  readonly #engine: Engine;
  readonly #open: OpenIndex;
  readonly #kept: KeptIndex;
  /** The prefix of the table's keys. */
  readonly #prefix: Uint8Array;
  readonly #repairs: boolean;
  readonly #isBuilding: boolean;
  readonly #view = new RecordView();

  constructor(
    { catalog, engine }: IndexCheckOptions,
    account: string,
    kept: KeptIndex,
    repairs: boolean,
    from: CheckPosition,
  ) {
    const accountId = catalog.accountId(account);
    this.#engine = engine;
    this.#open = openIndex(accountId, kept.index);
    this.#kept = kept;
    this.#prefix = tablePrefix(accountId, kept.table.id);
    this.#repairs = repairs;
    this.#isBuilding = kept.index.state === "building";
    this.next = from;
  }

  get rows(): number {
    return this.entities + this.entries;
  }

  async chunk(): Promise<void> {
    const { over } = this.next!;
    const prefix = over === "entities" ? this.#prefix : this.#open.prefix;
    const start = positionKey(prefix, this.next!, this.#engine.keyBytesMax);
    const bases: KeyPosition[] = [];
    const expected: (IndexEntry | undefined)[] = [];
    let last: Key | undefined;
    const end = await this.#engine.scan(
      { start, end: partitionPrefixRange(prefix).end },
      (entry) => {
        last = copyKey(entry.key);
        this.#view.reset(recordOf(entry));
        if (over === "entries") {
          bases.push(baseOf(this.#view));
          expected.push({ key: last, value: new Uint8Array() });
        } else {
          bases.push({ partitionKey: this.#view.partitionKey, rowKey: this.#view.rowKey });
          expected.push(entryOf(this.#open, recordOf(entry), 0));
        }
        return bases.length < CHUNK;
      },
      { entriesExpected: CHUNK },
    );
    if (over === "entities") {
      this.entities += bases.length;
      await this.#compareEntities(bases, expected);
    } else {
      this.entries += bases.length;
      await this.#compareEntries(
        bases,
        expected.map((entry) => entry!.key),
      );
    }
    if (this.isOutdated) return;
    this.next = this.#following(over, prefix, end === "stopped" ? after(last!) : end);
  }

  #following(
    over: CheckPosition["over"],
    prefix: Uint8Array,
    end: "complete" | Key | { readonly resumeAt: Key },
  ): CheckPosition | undefined {
    if (end === "complete") {
      return over === "entities" ? { over: "entries", partitionKey: "", rowKey: "" } : undefined;
    }
    const { partition, sort } = "resumeAt" in end ? end.resumeAt : end;
    return {
      over,
      partitionKey: decodeText(partition, prefix.length),
      rowKey: decodeText(sort),
    };
  }

  async #compareEntities(
    bases: readonly KeyPosition[],
    expected: readonly (IndexEntry | undefined)[],
  ): Promise<void> {
    const wanted = expected.flatMap((entry, at) => (entry ? [{ entry, base: bases[at]! }] : []));
    if (wanted.length === 0) return;
    const found = await this.#engine.get(wanted.map(({ entry }) => entry.key));
    for (const [at, { entry, base }] of wanted.entries()) {
      const stored = found[at];
      if (!stored || !isSameEntry(stored, entry)) await this.#look(base, undefined);
    }
  }

  async #compareEntries(bases: readonly KeyPosition[], keys: readonly Key[]): Promise<void> {
    if (bases.length === 0) return;
    const found = await this.#engine.get(bases.map((base) => this.#baseKey(base)));
    for (const [at, base] of bases.entries()) {
      const stored = found[at];
      const entry = stored && entryOf(this.#open, recordOf(stored), 0);
      if (!entry || !isSameKey(entry.key, keys[at]!)) await this.#look(base, keys[at]);
    }
  }

  /**
   * Looks at an entity, its entry, and another entry that names it, in one snapshot; counts and repairs what is wrong.
   * @param other key of an entry that seemed to be surplus
   */
  async #look(base: KeyPosition, other: Key | undefined): Promise<void> {
    const baseKey = this.#baseKey(base);
    let guess: Key = baseKey;
    const looksMax = this.#repairs ? LOOKS_TO_REPAIR_MAX : LOOKS_MAX;
    for (let looks = 0; looks < looksMax && !this.isOutdated; looks++) {
      const [stored, entry, surplus] = await this.#engine.get([baseKey, guess, other ?? baseKey]);
      const expected = stored && entryOf(this.#open, recordOf(stored), 0);
      if (expected && !isSameKey(expected.key, guess)) {
        // Which key to read beside the entity is known only now.
        guess = expected.key;
        continue;
      }
      const isSurplus =
        other !== undefined &&
        surplus !== undefined &&
        !(expected && isSameKey(expected.key, other));
      const lacks =
        expected === undefined || (entry !== undefined && isSameEntry(entry, expected))
          ? undefined
          : entry === undefined
            ? "missing"
            : "altered";
      // What is not built yet is not missing.
      if (lacks && !(lacks === "missing" && this.#isBuilding)) this.#count(lacks, base);
      if (isSurplus) this.#count("surplus", base);
      if (!this.#repairs || (!lacks && !isSurplus)) return;
      if (
        await this.#repair(
          stored,
          baseKey,
          lacks ? expected : undefined,
          isSurplus ? other : undefined,
        )
      ) {
        return;
      }
      this.#uncount(lacks, isSurplus);
    }
    if (this.#repairs && !this.isOutdated) throw new ServiceError("ServerBusy");
  }

  /** Returns false if the entity has changed since it was read, or the table's indexes have. */
  async #repair(
    stored: Entry | undefined,
    baseKey: Key,
    put: IndexEntry | undefined,
    surplus: Key | undefined,
  ): Promise<boolean> {
    const { table } = this.#kept;
    const version = this.#engine.nextVersion();
    const fresh = put && stored && entryOf(this.#open, recordOf(stored), version);
    const result = await this.#engine.commit({
      version,
      premise: { key: table.key, version: table.version },
      checks: [{ key: baseKey, expected: stored?.version ?? "absent" }],
      puts: fresh ? [fresh] : [],
      deletes: surplus ? [surplus] : [],
    });
    if (!result.committed && result.failedCheck === PREMISE_FAILED) this.isOutdated = true;
    return result.committed;
  }

  #count(finding: EntryFault, entity: KeyPosition): void {
    this.findings[finding]++;
    if (this.examples.length < EXAMPLES_MAX) this.examples.push({ finding, entity });
  }

  #uncount(lacks: "missing" | "altered" | undefined, isSurplus: boolean): void {
    for (const finding of [lacks, isSurplus ? ("surplus" as const) : undefined]) {
      if (!finding) continue;
      this.findings[finding]--;
      this.examples.pop();
    }
  }

  #baseKey({ partitionKey, rowKey }: KeyPosition): Key {
    return entityKey(this.#prefix, partitionKey, rowKey);
  }
}

function isSameKey(a: Key, b: Key): boolean {
  return equalBytes(a.sort, b.sort) && equalBytes(a.partition, b.partition);
}
