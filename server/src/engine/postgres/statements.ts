import { RAISED_BY_MAX } from "../version-clock.ts";
import { TYPE } from "./wire-writer.ts";

/** A statement whose text never changes, so that a connection parses it once. */
export interface Statement {
  /** Unique to the text; undefined for a statement that is always sent unprepared. */
  readonly name: string | undefined;
  readonly text: string;
  readonly parameterTypes: readonly number[];
}

const { bytea, int8, text, byteaArray, int8Array } = TYPE;

/** A VALUES list of more rows is not worth keeping prepared. */
const PREPARED_ROWS_MAX = 100;
/** Rows of one VALUES list; the protocol carries 65,535 parameters, two for each row. */
export const VALUES_ROWS_MAX = 1000;

/*
 * Parameter types are always given: next to `-1` an untyped parameter would become an `integer`, and its
 * eight bytes would be refused (22P03).
 */

// --- Reads -----------------------------------------------------------------------------------

export const GET_ONE = statement(
  "get_one",
  "SELECT ver, val FROM rh_kv WHERE pk = $1 AND sk = $2",
  [bytea, bytea],
);

const nthOfPair = (nth: 0 | 1, pk: string, sk: string) =>
  `SELECT ${nth}::bigint, ver, val FROM rh_kv WHERE pk = ${pk} AND sk = ${sk}`;

/** Two keys of any partitions in one snapshot: nearly every request reads its table with its entity. */
export const GET_PAIR = statement(
  "get_pair",
  `${nthOfPair(0, "$1", "$2")} UNION ALL ${nthOfPair(1, "$3", "$4")}`,
  [bytea, bytea, bytea, bytea],
);

/**
 * The same on a cluster, the second before the first, which every node has: the one that is asked reads it itself, and
 * for one table and one key Citus needs no plan. As one statement they took 1.4 times as long.
 */
export const GET_FIRST = statement("get_first", nthOfPair(0, "$1", "$2"), [bytea, bytea]);
export const GET_SECOND = statement("get_second", nthOfPair(1, "$1", "$2"), [bytea, bytea]);

/*
 * Look-ups by an array of keys are LATERAL, with `OFFSET 0` so that the planner keeps them that way. As a
 * join, or as `sk = ANY (…)` before PostgreSQL 17, they are planned as a walk over the partition once
 * statistics say that partitions are small. Citus recognizes that one shard is enough, also with row locks.
 */

/** Keys of one partition. */
export const GET_MANY = statement(
  "get_many",
  "SELECT c.sk, k.ver, k.val FROM unnest($2) AS c(sk), " +
    "LATERAL (SELECT ver, val FROM rh_kv WHERE pk = $1 AND sk = c.sk OFFSET 0) AS k",
  [bytea, byteaArray],
);

/** Keys of several partitions in one snapshot. A sharded server would ask every shard. */
export const GET_ACROSS = statement(
  "get_across",
  "SELECT c.pk, c.sk, k.ver, k.val FROM unnest($1, $2) AS c(pk, sk), " +
    "LATERAL (SELECT ver, val FROM rh_kv WHERE pk = c.pk AND sk = c.sk OFFSET 0) AS k",
  [byteaArray, byteaArray],
);

/*
 * The same for callers that have room for $3 bytes: once the values found reach that size, the following ones are
 * null. They are counted in the order in which they are found, which is that of the keys, though nothing guarantees
 * it. The length of a value is known without reading it, so a value that is not sent is not read either. A read of
 * a hundred rows of 1 kB takes 0.86 ms instead of 0.74; 250 of 1 MB for a page of 8 MiB, 42 ms instead of 1,500.
 */
export const GET_MANY_WITHIN = within("get_many_within", "sk", GET_MANY);
export const GET_ACROSS_WITHIN = within("get_across_within", "pk, sk", GET_ACROSS);

function within(name: string, key: string, { text, parameterTypes }: Statement): Statement {
  return statement(
    name,
    `SELECT ${key}, ver, CASE WHEN upto - octet_length(val) < $3 THEN val END ` +
      "FROM (SELECT *, sum(octet_length(val)) OVER (ROWS UNBOUNDED PRECEDING) AS upto " +
      `FROM (${text}) AS found) AS summed`,
    [...parameterTypes, int8],
  );
}

/*
 * A scan inside one partition uses `pk = $1`, never a row comparison: only then does a sharded server ask one
 * shard. Every scan has a LIMIT, even of a closed range: without it the planner chooses a bitmap scan and a
 * sort, ten times slower.
 */
export const SCAN_PARTITION = statement(
  "scan_partition",
  "SELECT sk, ver, val FROM rh_kv WHERE pk = $1 AND sk >= $2 ORDER BY sk LIMIT $3",
  [bytea, bytea, int8],
);
export const SCAN_PARTITION_TO = statement(
  "scan_partition_to",
  "SELECT sk, ver, val FROM rh_kv WHERE pk = $1 AND sk >= $2 AND sk < $3 ORDER BY sk LIMIT $4",
  [bytea, bytea, bytea, int8],
);

/*
 * A row comparison is one index condition. With `pk > $1 OR (pk = $1 AND sk > $2)` the plan would read and filter.
 */
export const SCAN_ACROSS = statement(
  "scan_across",
  "SELECT pk, sk, ver, val FROM rh_kv WHERE (pk, sk) >= ($1, $2) ORDER BY pk, sk LIMIT $3",
  [bytea, bytea, int8],
);
export const SCAN_ACROSS_TO = statement(
  "scan_across_to",
  "SELECT pk, sk, ver, val FROM rh_kv WHERE (pk, sk) >= ($1, $2) AND (pk, sk) < ($3, $4) ORDER BY pk, sk LIMIT $5",
  [bytea, bytea, bytea, bytea, int8],
);

/** A scan for wanted sort keys returns every row at this distance, wanted or not. */
export const MARK_ROWS = 1024;

/**
 * A scan over partitions that leaves out rows by their sort key. $5 lists the positions where wanted sort
 * keys begin and end in turn, so a key behind an odd number of them is wanted. Of the other rows only the
 * last and every 1,024th is returned, as a bare key: so it stays known how far the server has read, and it
 * never reads long without an answer. `n` counts all rows, including those left out.
 *
 * A condition in WHERE would count nothing. The window function streams, and holds two rows. On 300,000 rows
 * of 1 kB the server took no longer than for sending all of them, whatever was wanted (0.4 to 0.6 s, compared
 * with 0.6); looking the values up afterwards took two to four times as long.
 */
export const SCAN_WANTED = statement(
  "scan_wanted",
  "SELECT pk, sk, n, CASE WHEN wanted THEN ver END, CASE WHEN wanted THEN val END " +
    "FROM (SELECT pk, sk, ver, val, row_number() OVER o AS n, lead(true) OVER o IS NULL AS is_last, " +
    "width_bucket(sk, $5) % 2 = 1 AS wanted " +
    "FROM (SELECT pk, sk, ver, val FROM rh_kv WHERE (pk, sk) >= ($1, $2) AND (pk, sk) < ($3, $4) " +
    "ORDER BY pk, sk LIMIT $6) AS k WINDOW o AS (ORDER BY pk, sk)) AS examined " +
    `WHERE wanted OR is_last OR n % ${MARK_ROWS} = 0 ORDER BY pk, sk`,
  [bytea, bytea, bytea, bytea, byteaArray, int8],
);

/*
 * A scan over the shards of a cluster. Its pages are closed ranges, of which each shard sends its own part; a LIMIT
 * alone would make each of them send a whole page.
 */

/**
 * Where pages may end: the next $6 of a sample of the keys. One row in $5 + 1 is in it, a power of two, by a number
 * made of its key, so that each shard knows its own. With `= 0` the planner expects one row in 200 at most, fewer than are
 * wanted, and reads and sorts the whole shard for each sample; with `< 1` it walks the index until it has them.
 */
export const SAMPLE = statement(
  "sample",
  "SELECT pk, sk FROM rh_kv WHERE (pk, sk) > ($1, $2) AND (pk, sk) < ($3, $4) " +
    "AND hash_array(ARRAY[pk, sk])::bigint & $5 < 1 ORDER BY pk, sk LIMIT $6",
  [bytea, bytea, bytea, bytea, int8, int8],
);

/** The rows of a page with wanted sort keys, see `SCAN_WANTED`; how many others there are, `COUNT_ACROSS` tells. */
export const SCAN_WANTED_OF_SHARDS = statement(
  "scan_wanted_of_shards",
  "SELECT pk, sk, ver, val FROM rh_kv WHERE (pk, sk) >= ($1, $2) AND (pk, sk) < ($3, $4) " +
    "AND width_bucket(sk, $5) % 2 = 1 ORDER BY pk, sk LIMIT $6",
  [bytea, bytea, bytea, bytea, byteaArray, int8],
);
export const COUNT_ACROSS = statement(
  "count_across",
  "SELECT count(*) FROM rh_kv WHERE (pk, sk) >= ($1, $2) AND (pk, sk) < ($3, $4)",
  [bytea, bytea, bytea, bytea],
);

// --- Commits of one key, one statement each ----------------------------------------------------

export const INSERT_ONE = statement(
  "insert_one",
  "INSERT INTO rh_kv (pk, sk, ver, val) VALUES ($1, $2, $3, $4) ON CONFLICT (pk, sk) DO NOTHING RETURNING ver",
  [bytea, bytea, int8, bytea],
);
export const UPSERT_ONE = statement(
  "upsert_one",
  "INSERT INTO rh_kv AS k (pk, sk, ver, val) VALUES ($1, $2, $3, $4) " +
    `ON CONFLICT (pk, sk) DO UPDATE SET ver = ${above("k.ver", "excluded.ver")}, val = excluded.val RETURNING ver`,
  [bytea, bytea, int8, bytea],
);
/** $5 is the version the row must have, or -1 for any. */
export const UPDATE_ONE = statement(
  "update_one",
  `UPDATE rh_kv SET ver = ${above("ver", "$3")}, val = $4 WHERE pk = $1 AND sk = $2 AND ($5 = -1 OR ver = $5) RETURNING ver`,
  [bytea, bytea, int8, bytea, int8],
);
/** $3 is the version the row must have, or -1 for any. */
export const DELETE_ONE = statement(
  "delete_one",
  "DELETE FROM rh_kv WHERE pk = $1 AND sk = $2 AND ($3 = -1 OR ver = $3) RETURNING ver",
  [bytea, bytea, int8],
);

/*
 * The same on a loose premise, `Premise.isLoose`: only if the row of these last two keys has the version of the last
 * parameter. No row returned then means either. Citus would send an INSERT … SELECT through the coordinator: there
 * `ASSERT_PREMISE` stands before the statement.
 */

export const INSERT_ONE_ON_PREMISE = onPremise(
  "insert_one_on_premise",
  (premise) =>
    "INSERT INTO rh_kv (pk, sk, ver, val) SELECT $1, $2, $3, $4 " +
    `WHERE ${premise} ON CONFLICT (pk, sk) DO NOTHING RETURNING ver`,
  INSERT_ONE,
);
export const UPSERT_ONE_ON_PREMISE = onPremise(
  "upsert_one_on_premise",
  (premise) =>
    `INSERT INTO rh_kv AS k (pk, sk, ver, val) SELECT $1, $2, $3, $4 WHERE ${premise} ` +
    `ON CONFLICT (pk, sk) DO UPDATE SET ver = ${above("k.ver", "excluded.ver")}, val = excluded.val RETURNING ver`,
  UPSERT_ONE,
);
export const UPDATE_ONE_ON_PREMISE = onPremise(
  "update_one_on_premise",
  (premise) => UPDATE_ONE.text.replace(" RETURNING", ` AND ${premise} RETURNING`),
  UPDATE_ONE,
);
export const DELETE_ONE_ON_PREMISE = onPremise(
  "delete_one_on_premise",
  (premise) => DELETE_ONE.text.replace(" RETURNING", ` AND ${premise} RETURNING`),
  DELETE_ONE,
);

function onPremise(
  name: string,
  textWith: (premise: string) => string,
  { parameterTypes }: Statement,
): Statement {
  const [pk, sk, ver] = [1, 2, 3].map((nth) => `$${parameterTypes.length + nth}`);
  const premise = `EXISTS (SELECT FROM rh_kv WHERE pk = ${pk} AND sk = ${sk} AND ver = ${ver})`;
  return statement(name, textWith(premise), [...parameterTypes, bytea, bytea, int8]);
}

// --- Commits of several keys, one group --------------------------------------------------------

/*
 * BEGIN and COMMIT are always sent if there is more than one statement. Several statements before one Sync
 * look like one transaction on plain PostgreSQL, but on Citus each write has already committed on its worker
 * when a later one fails.
 */
export const BEGIN = statement("begin", "BEGIN", []);
/** For scans that belong together: the first one takes the snapshot for all, and nothing is locked. */
export const BEGIN_SNAPSHOT = statement(
  "begin_snapshot",
  "BEGIN ISOLATION LEVEL REPEATABLE READ, READ ONLY",
  [],
);
export const COMMIT = statement("commit", "COMMIT", []);

/** In transactions of several callers: a commit that waits for a rival must not keep the others waiting. */
export const SET_LOCK_TIMEOUT = statement(
  "set_lock_timeout",
  "SET LOCAL lock_timeout = '200ms'",
  [],
);

type RowHold = "share present" | "share" | "own";

const ROW_LOCKS: Readonly<Record<RowHold, readonly [name: string, clause: string]>> = {
  "share present": ["share_present", "FOR KEY SHARE"],
  share: ["share", "FOR SHARE"],
  own: ["own", "FOR UPDATE"],
};

/**
 * Locks rows, in the order in which they are named, and raises 22012 unless all $4 exist at their versions
 * (-1: at any). The error stops everything behind it in the group. (PostgreSQL divides integers, others
 * decimals; both raise 22012.)
 *
 * Locking and comparing are one statement: between two, a row could be inserted that passes the comparison
 * unlocked. As a join, holding one row of a partition of 20,000 took 2 ms instead of 0.2.
 */
export const HOLD = forEachRowLock(([name, clause]) =>
  statement(
    `hold_${name}`,
    "SELECT 1 / (CASE WHEN count(*) = $4 THEN 1 ELSE 0 END) FROM unnest($2, $3) AS c(sk, ver), " +
      `LATERAL (SELECT ver FROM rh_kv WHERE pk = $1 AND sk = c.sk ${clause}) AS k ` +
      "WHERE c.ver = -1 OR k.ver = c.ver",
    [bytea, byteaArray, int8Array, int8],
  ),
);

function forEachRowLock(
  build: (lock: readonly [name: string, clause: string]) => Statement,
): Readonly<Record<RowHold, Statement>> {
  return {
    "share present": build(ROW_LOCKS["share present"]),
    share: build(ROW_LOCKS.share),
    own: build(ROW_LOCKS.own),
  };
}

/** Raises 22012 unless the row has this version now, and locks nothing: a loose premise of the writes behind it. */
export const ASSERT_PREMISE = statement(
  "assert_premise",
  "SELECT 1 / count(*) FROM rh_kv WHERE pk = $1 AND sk = $2 AND ver = $3",
  [bytea, bytea, int8],
);

/** Rows that are held: no one can move them, so their `ctid` is valid throughout this statement. */
export const DELETE_HELD = statement(
  "delete_held",
  "DELETE FROM rh_kv WHERE ctid = ANY (ARRAY(SELECT k.ctid FROM unnest($2) AS c(sk), " +
    "LATERAL (SELECT ctid FROM rh_kv WHERE pk = $1 AND sk = c.sk OFFSET 0) AS k))",
  [bytea, byteaArray],
);
/** Keys of one such statement for Citus, where it is planned anew each time. */
export const DELETE_ROWS_MAX = 25;
const deleteMany = new Map<number, Statement>();

/**
 * The same for Citus: with a condition on `pk`, which it needs to know the shard, its workers plan a deletion by
 * `ctid` or by an array as a walk over the partition. $1 partition, then the sort of each row.
 */
export function deleteManyStatement(rowCount: number): Statement {
  return cached(deleteMany, rowCount, () => {
    const one = (row: number) => `DELETE FROM rh_kv WHERE pk = $1 AND sk = $${row + 1}`;
    const others: string[] = [];
    for (let row = 2; row <= rowCount; row++) others.push(`d${row} AS (${one(row)})`);
    const before = others.length > 0 ? `WITH ${others} ` : "";
    const types = new Array<number>(rowCount + 1).fill(bytea);
    return statement(`delete_many_${rowCount}`, before + one(1), types);
  });
}

/*
 * VALUES lists, not `INSERT … SELECT FROM unnest`: Citus pulls that form through the coordinator, reports the
 * row count of the SELECT, and reports a duplicate as XX000 instead of 23505. There is one text for each
 * number of rows, built once: rebuilding it for every commit doubled the client's processor time.
 */
const insertMany = new Map<number, Statement>();
const upsertMany = new Map<number, Statement>();

/** $1 partition, $2 version, then sort and value of each row. A unique violation fails the group. */
export function insertManyStatement(rowCount: number): Statement {
  return cached(insertMany, rowCount, () =>
    valuesStatement("insert_many", rowCount, "INSERT INTO rh_kv (pk, sk, ver, val) VALUES ", ""),
  );
}

/**
 * Like `insertManyStatement`, for rows that may exist; returns their keys and versions. Also used for rows
 * that are already locked and verified: an UPDATE joined with arrays is planned as a walk over the partition.
 */
export function upsertManyStatement(rowCount: number): Statement {
  return cached(upsertMany, rowCount, () =>
    valuesStatement(
      "upsert_many",
      rowCount,
      "INSERT INTO rh_kv AS k (pk, sk, ver, val) VALUES ",
      ` ON CONFLICT (pk, sk) DO UPDATE SET ver = ${above("k.ver", "excluded.ver")}, val = excluded.val RETURNING sk, ver`,
    ),
  );
}

function valuesStatement(name: string, rowCount: number, before: string, behind: string) {
  const rows: string[] = [];
  const types: number[] = [bytea, int8];
  for (let row = 0; row < rowCount; row++) {
    rows.push(`($1, $${row * 2 + 3}, $2, $${row * 2 + 4})`);
    types.push(bytea, bytea);
  }
  const isKept = rowCount <= PREPARED_ROWS_MAX;
  return statement(isKept ? `${name}_${rowCount}` : undefined, before + rows + behind, types);
}

function cached(kept: Map<number, Statement>, rowCount: number, build: () => Statement): Statement {
  const known = kept.get(rowCount);
  if (known) return known;
  const built = build();
  if (built.name !== undefined) kept.set(rowCount, built);
  return built;
}

/**
 * The version of a put: the writer's own, or, if that is not above the stored one, the next one with its remainder.
 */
function above(stored: string, brought: string): string {
  return `CASE WHEN ${stored} < ${brought} THEN ${brought} ELSE ${stored} + ${RAISED_BY_MAX} - mod(${stored} - ${brought}, ${RAISED_BY_MAX}) END`;
}

// --- Unknown outcomes, and the session -----------------------------------------------------------

/**
 * Reads the rows of a write whose answer was lost. The locks wait for a commit that is still in flight. Since
 * they are written to the log, the COMMIT behind them is acknowledged only when everything before it is as
 * durable as an acknowledged write.
 */
export const READ_LOCKED = statement(
  "read_locked",
  "SELECT c.sk, k.ver, k.val FROM unnest($2) AS c(sk), " +
    "LATERAL (SELECT ver, val FROM rh_kv WHERE pk = $1 AND sk = c.sk FOR UPDATE) AS k",
  [bytea, byteaArray],
);

/**
 * Sent when a connection opens: may we write here, does the server keep what it acknowledges, and do bytes
 * and numbers arrive intact?
 */
export const GREETING = statement(
  undefined,
  "SELECT current_setting('transaction_read_only'), current_setting('fsync', true), " +
    "current_setting('synchronous_commit', true), $1, $2",
  [bytea, int8],
);

/**
 * Which of the processes $1, comma-separated numbers, are still busy. Not counted are a process that began
 * less than $2 milliseconds ago, since its number was reused; a process of the server itself, since the
 * number was reused after a failover; and one that waits for its client: it waits in vain, in the middle of a
 * scan until the network is found to be gone, hours later.
 */
export const BUSY_BACKENDS = statement(
  undefined,
  "SELECT pid::bigint FROM pg_stat_activity WHERE pid = ANY (string_to_array($1, ',')::int[]) " +
    "AND state = 'active' AND backend_start < clock_timestamp() - $2 * interval '1 ms' " +
    "AND backend_type = 'client backend' AND wait_event_type IS DISTINCT FROM 'Client'",
  [text, int8],
);

/**
 * Which database this is, and which of its histories: each failover begins a new timeline. A standby tells the one that
 * it follows. On a cluster every node is a database of its own.
 */
export const LINEAGE = statement(
  undefined,
  "SELECT (SELECT system_identifier::text FROM pg_control_system()), " +
    "CASE WHEN pg_is_in_recovery() THEN (SELECT coalesce((SELECT received_tli FROM pg_stat_wal_receiver), timeline_id) " +
    "FROM pg_control_checkpoint()) ELSE ('x' || substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8))::bit(32)::int END::bigint, " +
    "(SELECT count(*) FROM pg_extension WHERE extname = 'citus')",
  [],
);

/**
 * All that was acknowledged before this moment is visible. A commit takes its time before its record is written, and is
 * acknowledged afterwards: so what was acknowledged before the last replayed commit took its time lies before it in the
 * log. The checkpoint counts after a start, when no commit has been replayed yet.
 */
export const SYNCED_AT = statement(
  undefined,
  "SELECT (extract(epoch FROM CASE WHEN pg_is_in_recovery() THEN greatest(pg_last_xact_replay_timestamp(), " +
    "(SELECT checkpoint_time FROM pg_control_checkpoint())) ELSE now() END) * 1000)::bigint",
  [],
);

/** On Citus, the nodes of partitions: $1 names them in hexadecimal, comma-separated. Each with its place in that list. */
export const NODES_OF = statement(
  undefined,
  "SELECT c.n, p.nodename || ':' || p.nodeport FROM unnest(string_to_array($1, ',')) WITH ORDINALITY AS c(hex, n) " +
    "JOIN pg_dist_shard_placement AS p " +
    "ON p.shardid = get_shard_id_for_distribution_column('rh_kv', decode(c.hex, 'hex'))",
  [text],
);

/** On Citus, the table that is this node's copy of $1; no row where it has none, or this role may not read it. */
export const LOCAL_COPY = statement(
  undefined,
  "SELECT copy::text FROM (SELECT to_regclass($1 || '_' || shardid) AS copy FROM pg_dist_shard " +
    "WHERE logicalrelid = to_regclass($1)) AS known WHERE has_table_privilege(copy, 'SELECT')",
  [text],
);

export const SET_SESSION = statement(undefined, "SELECT set_config($1, $2, false)", [text, text]);

/** A statement that is never prepared. */
export function textQuery(sql: string, parameterTypes: readonly number[] = []): Statement {
  return statement(undefined, sql, parameterTypes);
}

function statement(
  name: string | undefined,
  sql: string,
  parameterTypes: readonly number[],
): Statement {
  return { name: name === undefined ? undefined : `rh_${name}`, text: sql, parameterTypes };
}
