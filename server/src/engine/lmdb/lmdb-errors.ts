import { constants } from "node:os";
import { EngineError, type EngineErrorCode } from "../engine.ts";

/** What lmdb-js says of an error: LMDB's code as a negative number, or the system's as a positive one. */
interface LmdbError extends Error {
  readonly code?: unknown;
}

const { ENOSPC, EFBIG, EDQUOT, ENOMEM, EACCES, EPERM, EROFS, ENOENT } = constants.errno;

/** By LMDB's return codes, as lmdb.h lists them, and the system's. */
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

/** `otherwise`: what a fault means that has no line of its own, where it came up. */
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

function codeOf(error: unknown): number | undefined {
  if (!(error instanceof Error)) return undefined;
  const { code }: LmdbError = error;
  return typeof code === "number" ? code : undefined;
}
