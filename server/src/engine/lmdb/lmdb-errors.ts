import { constants } from "node:os";
import { EngineError, type EngineErrorCode } from "../engine.ts";

/** An error of lmdb-js. Its code is LMDB's, a negative number, or the system's, a positive one. */
interface LmdbError extends Error {
  readonly code?: unknown;
}

const { ENOSPC, EFBIG, EDQUOT, ENOMEM, EACCES, EPERM, EROFS, ENOENT } = constants.errno;

/** By LMDB's return codes, as lmdb.h lists them, and the system's codes. */
const CODES: ReadonlyMap<number, EngineErrorCode> = new Map<number, EngineErrorCode>([
  [-30797, "Corrupt"], // PAGE_NOTFOUND
  [-30796, "Corrupt"], // CORRUPTED
  [-30793, "Corrupt"], // INVALID: not an LMDB file
  [-30794, "Corrupt"], // VERSION_MISMATCH
  [-30792, "Unavailable"], // MAP_FULL
  [-30790, "Unavailable"], // READERS_FULL
  [-30788, "Unavailable"], // TXN_FULL
  ...[ENOSPC, EFBIG, EDQUOT, ENOMEM, EACCES, EPERM, EROFS, ENOENT].map(
    (code) => [code, "Unavailable"] as const,
  ),
]);

/** `otherwise`: the code of an error that has no line above; it depends on where the error occurred. */
export function toEngineError(
  error: unknown,
  otherwise: EngineErrorCode,
  doing: string,
): EngineError {
  if (error instanceof EngineError) return error;
  const code = codeOf(error);
  const message = error instanceof Error ? error.message : String(error);
  return new EngineError((code && CODES.get(code)) || otherwise, `${doing}: ${message}`, {
    cause: error,
  });
}

/** Reading marks its transaction as bad where a node of a page has flags that no entry of ours has. */
export function toReadError(error: unknown, doing: string): EngineError {
  return toEngineError(error, codeOf(error) === BAD_TXN ? "Corrupt" : "Unavailable", doing);
}

const BAD_TXN = -30782;

function codeOf(error: unknown): number | undefined {
  if (!(error instanceof Error)) return undefined;
  const { code }: LmdbError = error;
  return typeof code === "number" ? code : undefined;
}
