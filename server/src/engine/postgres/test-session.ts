import { Duplex } from "node:stream";
import { Session } from "./session.ts";

/** A socket whose other end is the test. */
export class FakeSocket extends Duplex {
  /** Codes of the messages sent, with the names of Parse and Bind: "P:a B:a E S". */
  readonly sent: string[] = [];

  override _read(): void {}

  override _write(chunk: Buffer, _encoding: string, done: () => void): void {
    for (let at = 0; at < chunk.length; ) {
      const code = String.fromCharCode(chunk[at]!);
      const nameAt = at + (code === "B" ? 6 : 5);
      const name = chunk.toString("latin1", nameAt, chunk.indexOf(0, nameAt));
      this.sent.push(code === "P" || code === "B" || code === "Q" ? `${code}:${name}` : code);
      at += 1 + chunk.readInt32BE(at + 1);
    }
    done();
  }

  takeSent(): string {
    return this.sent.splice(0).join(" ");
  }
}

export function openSession(preparedStatements = true, processId?: number) {
  const socket = new FakeSocket();
  let [ended, cancelled] = [0, 0];
  const control = {
    processId,
    end: () => void ended++,
    cancel: () => void cancelled++,
  };
  const session = new Session(socket, control, { preparedStatements, resultFormat: 1 });
  const answer = (...messages: Buffer[]) => {
    for (const message of messages) session.receive(message);
  };
  return { session, socket, answer, endedCount: () => ended, cancelledCount: () => cancelled };
}

export function message(code: string, body: string | Buffer = ""): Buffer {
  const bytes = typeof body === "string" ? Buffer.from(body, "latin1") : body;
  const header = Buffer.alloc(5);
  header.write(code, "latin1");
  header.writeUInt32BE(4 + bytes.length, 1);
  return Buffer.concat([header, bytes]);
}

export const parsed = message("1");
export const bound = message("2");
export const complete = message("C", "SELECT 0\0");
export const ready = message("Z", "I");
export const readyInFailed = message("Z", "E");
/** As PostgreSQL reports it. */
export const failure = (state: string, severity = "ERROR") =>
  message("E", `S${severity}\0V${severity}\0C${state}\0Mit failed\0Ffile.c\0L1\0Rroutine\0\0`);
/** As a pooler reports it when it loses its server. */
export const poolerFailure = (state: string, severity = "FATAL") =>
  message("E", `S${severity}\0V${severity}\0C${state}\0Mserver conn crashed?\0\0`);
/** As PostgreSQL reports it along with the success of a commit that has stopped waiting for a standby. */
export const standbyWarning = message(
  "N",
  "SWARNING\0VWARNING\0C01000\0Mcanceling wait for synchronous replication\0\0",
);
