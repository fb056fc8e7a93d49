import type { Duplex } from "node:stream";
import { RowReader } from "./row-reader.ts";
import { readFields, ServerError } from "./sql-state.ts";
import type { Statement } from "./statements.ts";
import { WireReader } from "./wire-reader.ts";
import { WireWriter } from "./wire-writer.ts";

/**
 * Everything sent up to one Sync, and the handling of its answers. The session calls these methods in the
 * order of the server's answers, and ends with exactly one of `ready` and `lost`.
 *
 * With one Sync the server skips everything behind the first error. With a Sync for each statement, the
 * statements behind a BEGIN that failed would commit one by one.
 */
export interface Exchange {
  /** Milliseconds of `performance.now()`: a session that has not answered by then is given up. */
  readonly deadline: number;
  /**
   * If set, the server is asked to stop the exchange before the session is given up. Never set for a write: a
   * COMMIT that waits for its standby ends in success when it is cancelled, although only one machine has it.
   */
  readonly isRead?: boolean;
  row(row: RowReader): void;
  /** One statement is complete. */
  complete(tag: Tag): void;
  /** The portal has more rows than were requested. */
  suspended?(): void;
  /** The next statement to complete failed; those behind it are skipped. */
  failed(error: ServerError): void;
  /** A warning that the write may be less durable than the server is configured to make it. */
  warned?(): void;
  ready(): void;
  /** The connection is gone. `isSent` tells whether any byte may have reached the server. */
  lost(error: Error, isSent: boolean): void;
}

/** The part of a completed statement's tag that matters. */
export interface Tag {
  readonly isRollback: boolean;
}

const ROLLED_BACK: Tag = { isRollback: true };
const DONE: Tag = { isRollback: false };

/** A connection that has to forget its names this often is behind a pooler that shuffles sessions. */
const FORGOTTEN_MAX = 3;

/** How long an overdue read may take to end, once the server was asked to stop it. */
const CANCEL_ANSWER_MS_MAX = 1_000;

/** Actions that a session cannot take over its own socket. */
export interface SessionControl {
  /** The process number of the server behind the connection, if the server reported one. */
  readonly processId: number | undefined;
  /** Sends Terminate and closes the connection. */
  end(): void;
  /** Asks the server to stop what this connection is doing. */
  cancel(): void;
}

export interface SessionOptions {
  readonly preparedStatements: boolean;
  readonly resultFormat: 0 | 1;
}

/**
 * One authenticated connection: sends exchanges, several at once if the caller pipelines, and passes each its
 * answers.
 *
 * An exchange is open from `begin` to `sync`, and pending until its last answer; a session is quiet while no exchange
 * is pending. When its oldest exchange is overdue, a read is first cancelled: the session is then lost with the
 * answer, or given up a second later. A write is given up without being cancelled. A lost session never recovers.
 */
export class Session {
  /** Called once, when the connection is gone. */
  onLost: (session: Session) => void = () => {};
  /** Called when the server reports damaged data. */
  onCorrupt: (error: ServerError) => void = () => {};
  /** The table that is the node's own copy of `placement.ts`'s names; undefined where Citus has to find it. */
  copyOfNames: string | undefined;
  readonly #socket: Duplex;
  readonly #control: SessionControl;
  readonly #writer = new WireWriter();
  readonly #reader: WireReader;
  readonly #row: RowReader;
  readonly #resultFormat: 0 | 1;
  /** Exchanges whose answers are not complete, in the order in which they were sent. */
  readonly #pending: Exchange[] = [];
  #open: Exchange | undefined;
  #preparedStatements: boolean;
  readonly #prepared = new Set<string>();
  /** Names whose ParseComplete has not arrived, in order; "" for unprepared statements. */
  readonly #parsing: { readonly name: string; readonly exchange: Exchange }[] = [];
  #nameSuffix = "";
  #forgotten = 0;
  #cancelledAt: number | undefined;
  #isGivenUp = false;
  #lostBy: Error | undefined;

  constructor(socket: Duplex, control: SessionControl, options: SessionOptions) {
    this.#socket = socket;
    this.#control = control;
    this.#preparedStatements = options.preparedStatements;
    this.#resultFormat = options.resultFormat;
    this.#row = new RowReader(options);
    this.#reader = new WireReader((code, bytes, start, bodyEnd) =>
      this.#receive(code, bytes, start, bodyEnd),
    );
  }

  get isLost(): boolean {
    return this.#lostBy !== undefined;
  }

  /** Lost because it was overdue: the server may still be working for it. */
  get isGivenUp(): boolean {
    return this.#isGivenUp;
  }

  get processId(): number | undefined {
    return this.#control.processId;
  }

  /** No exchange is pending. */
  get isQuiet(): boolean {
    return this.#pending.length === 0;
  }

  /** Receives bytes. @throws nothing: a malformed stream counts as a lost connection. */
  receive(chunk: Buffer): void {
    try {
      this.#reader.push(chunk);
    } catch (error) {
      this.destroy(error instanceof Error ? error : new Error(String(error)));
    }
  }

  // --- Sending -------------------------------------------------------------------------------

  /** Begins an exchange; its statements follow, then `sync`. */
  begin(exchange: Exchange): void {
    this.#open = exchange;
    this.#pending.push(exchange);
  }

  /** Begins a statement of the open exchange: its parameters follow, then `execute`. */
  bind(statement: Statement): WireWriter {
    const { name, text, parameterTypes } = statement;
    const writer = this.#writer;
    const sentName = name === undefined || !this.#preparedStatements ? "" : name + this.#nameSuffix;
    if (sentName === "" || !this.#prepared.has(sentName)) {
      writer.parse(sentName, text, parameterTypes);
      this.#parsing.push({ name: sentName, exchange: this.#open! });
      if (sentName !== "") this.#prepared.add(sentName);
    }
    writer.beginBind(sentName, parameterTypes.length);
    return writer;
  }

  execute(rowsMax = 0): void {
    this.#writer.endBind(this.#resultFormat);
    this.#writer.execute(rowsMax);
  }

  /** Requests more rows of a suspended portal. */
  continue(rowsMax: number): void {
    this.#writer.execute(rowsMax);
    this.flush();
  }

  /** Sends what was written, and has the server answer it without ending the exchange. */
  flush(): void {
    this.#writer.flush();
    this.#send();
  }

  /** Ends the open exchange and sends what was written. */
  sync(): void {
    this.#writer.sync();
    this.#open = undefined;
    this.#send();
  }

  #send(): void {
    const bytes = this.#writer.take();
    if (this.#lostBy === undefined && this.#socket.writable) {
      this.#socket.write(bytes);
      // Mostly the kernel has already taken the bytes, and the next message can reuse their memory.
      if (this.#socket.writableLength === 0) this.#writer.reuse();
      return;
    }
    // An exchange on a dead connection must fail now, or its promise would never settle.
    const error = this.#lostBy ?? new Error("The connection is closed.");
    const exchange = this.#pending.pop();
    queueMicrotask(() => exchange?.lost(error, false));
    this.destroy(error);
  }

  // --- Receiving -----------------------------------------------------------------------------

  /** Holds back further answers until `resume`, so that a slow visitor does not block the event loop. */
  pause(): void {
    this.#reader.pause();
    this.#socket.pause();
  }

  resume(): void {
    if (this.#lostBy !== undefined) return;
    try {
      this.#reader.resume();
    } catch (error) {
      this.destroy(error instanceof Error ? error : new Error(String(error)));
    }
    if (!this.#reader.isPaused) this.#socket.resume();
  }

  #receive(code: number, bytes: Buffer, start: number, end: number): void {
    const exchange = this.#pending[0];
    switch (code) {
      case 0x44: // D, DataRow.
        this.#row.begin(bytes, start);
        exchange?.row(this.#row);
        return;
      case 0x43: // C, CommandComplete. Only the tag of a failed COMMIT matters.
        exchange?.complete(bytes[start] === 0x52 ? ROLLED_BACK : DONE);
        return;
      case 0x32: // 2, BindComplete.
        return;
      case 0x31: // 1, ParseComplete.
        this.#parsing.shift();
        return;
      case 0x5a: // Z, ReadyForQuery.
        this.#ready(bytes[start]!);
        return;
      case 0x73: // s, PortalSuspended.
        exchange?.suspended?.();
        return;
      case 0x45: // E, ErrorResponse.
        this.#failed(new ServerError(readFields(bytes, start, end)));
        return;
      case 0x4e: // N, NoticeResponse.
        this.#notice(readFields(bytes, start, end));
        return;
      default:
        // Parameter changes, notifications, NoData, EmptyQuery: no exchange waits for these.
        return;
    }
  }

  #ready(status: number): void {
    const exchange = this.#pending.shift();
    // A cancel request may arrive late, and must not hit the next exchange.
    if (this.#cancelledAt !== undefined) this.destroy(new Error("A read took too long."));
    // An error behind BEGIN leaves the failed transaction open, since COMMIT was skipped; a scan of several
    // ranges ends without COMMIT.
    if (status !== 0x49 && this.#lostBy === undefined) {
      this.begin(new Rollback(performance.now() + 10_000, (error) => this.destroy(error)));
      this.#writer.query("ROLLBACK");
      this.#open = undefined;
      this.#send();
    }
    exchange?.ready();
  }

  #failed(error: ServerError): void {
    const exchange = this.#pending[0];
    if (exchange === undefined) {
      // No exchange is pending: the server gives its reason for closing the connection.
      this.destroy(error);
      return;
    }
    // The server skips everything up to Sync, including the Parse of statements that it therefore never sees:
    // using their names would fail with 26000.
    while (this.#parsing[0]?.exchange === exchange) {
      this.#prepared.delete(this.#parsing.shift()!.name);
    }
    const fault = error.fault;
    if (fault === "forget") this.#forgetNames();
    if (fault === "corrupt") this.onCorrupt(error);
    // 42P01, undefined_table: the node's copy is another one now, or gone.
    if (error.sqlState === "42P01") this.copyOfNames = undefined;
    exchange.failed(error);
    if (error.isFatal) this.destroy(error);
  }

  /** Chooses new names, because the server may still know the old ones (42P05). */
  #forgetNames(): void {
    this.#prepared.clear();
    this.#forgotten++;
    this.#nameSuffix = `_${this.#forgotten}`;
    if (this.#forgotten >= FORGOTTEN_MAX) this.#preparedStatements = false;
  }

  /**
   * With `client_min_messages = warning` our statements cause no notices but this one: a cancelled wait for a
   * synchronous standby. The text depends on the server's language, the code does not.
   */
  #notice(fields: ReadonlyMap<string, string>): void {
    const code = fields.get("C");
    if (code === "01000" || code === "57P01") this.#pending[0]?.warned?.();
  }

  // --- The end -------------------------------------------------------------------------------

  /**
   * Gives the connection up if its oldest exchange is overdue, a read only after it was cancelled. Returns
   * whether it did.
   */
  giveUpIfOverdue(now: number): boolean {
    const oldest = this.#pending[0];
    if (oldest === undefined || now <= oldest.deadline) return false;
    if (oldest.isRead && this.#cancelledAt === undefined) {
      this.#cancelledAt = now;
      this.#control.cancel();
    }
    if (this.#cancelledAt !== undefined && now <= this.#cancelledAt + CANCEL_ANSWER_MS_MAX)
      return false;
    this.#isGivenUp = true;
    this.destroy(new Error("The database did not answer in time."));
    return true;
  }

  /** Sends Terminate and closes. Pending exchanges are lost. */
  close(): void {
    if (this.#lostBy !== undefined) return;
    this.#control.end();
    this.#lose(new Error("The connection was closed."));
  }

  destroy(error: Error): void {
    this.#socket.destroy();
    this.#lose(error);
  }

  #lose(error: Error): void {
    if (this.#lostBy !== undefined) return;
    this.#lostBy = error;
    const pending = this.#pending.splice(0);
    this.onLost(this);
    for (const exchange of pending) exchange.lost(error, true);
  }
}

class Rollback implements Exchange {
  readonly deadline: number;
  readonly #destroy: (error: Error) => void;

  constructor(deadline: number, destroy: (error: Error) => void) {
    this.deadline = deadline;
    this.#destroy = destroy;
  }

  row(): void {}
  complete(): void {}
  ready(): void {}
  lost(): void {}

  failed(error: ServerError): void {
    this.#destroy(error);
  }
}
