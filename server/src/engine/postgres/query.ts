import type { RowReader } from "./row-reader.ts";
import type { Exchange, Session } from "./session.ts";
import type { Statement } from "./statements.ts";

const TIMEOUT_MS = 5_000;

export type Parameter = string | number | Uint8Array;

/** A statement and its parameters. */
export interface Query {
  readonly statement: Statement;
  readonly parameters?: readonly Parameter[];
  readonly onRow?: (row: RowReader) => void;
}

/** Runs one statement, for work that is not urgent. @throws ServerError, or Error if the connection broke. */
export function query(
  session: Session,
  statement: Statement,
  parameters: readonly Parameter[] = [],
  onRow: (row: RowReader) => void = () => {},
): Promise<void> {
  return queryAll(session, [{ statement, parameters, onRow }]);
}

/**
 * Runs statements up to the first error, with one Sync: between BEGIN and COMMIT, all or none. Has a timeout
 * of its own, since it may run before a pool watches the session.
 */
export function queryAll(
  session: Session,
  queries: readonly Query[],
  timeoutMs = TIMEOUT_MS,
): Promise<void> {
  return new Promise((resolve, reject) => {
    let completed = 0;
    let failure: Error | undefined;
    const overdue = setTimeout(
      () => session.destroy(new Error("The database did not answer in time.")),
      timeoutMs,
    );
    overdue.unref();
    const exchange: Exchange = {
      deadline: performance.now() + timeoutMs,
      row: (row) => queries[completed]?.onRow?.(row),
      complete: () => {
        completed++;
      },
      failed: (error) => {
        failure ??= error;
      },
      ready() {
        clearTimeout(overdue);
        if (failure) reject(failure);
        else resolve();
      },
      lost(error) {
        clearTimeout(overdue);
        reject(failure ?? error);
      },
    };
    session.begin(exchange);
    for (const each of queries) send(session, each);
    session.sync();
  });
}

function send(session: Session, { statement, parameters = [] }: Query): void {
  const writer = session.bind(statement);
  for (const parameter of parameters) {
    if (typeof parameter === "string") writer.text(parameter);
    else if (typeof parameter === "number") writer.int8(parameter);
    else writer.bytes(parameter);
  }
  session.execute();
}

/** Rows of text columns, null as undefined. */
export async function queryText(
  session: Session,
  statement: Statement,
  columnCount: number,
  parameters: readonly Parameter[] = [],
): Promise<(string | undefined)[][]> {
  const rows: (string | undefined)[][] = [];
  await query(session, statement, parameters, (row) => {
    rows.push(Array.from({ length: columnCount }, () => row.text()));
  });
  return rows;
}
