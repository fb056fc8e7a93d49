import { ERROR_TEXTS, ServiceError } from "@rowhouse/protocol/errors";
import { LIMITS } from "@rowhouse/protocol/limits";

/**
 * Checks the length before the characters. `tables`, in any case, is reserved for the list of
 * tables.
 * @throws ServiceError OutOfRangeInput, InvalidResourceName or InvalidInput.
 */
export function checkTableName(name: string): void {
  if (name.length < LIMITS.tableNameLengthMin || name.length > LIMITS.tableNameLengthMax) {
    throw new ServiceError("OutOfRangeInput", { message: ERROR_TEXTS.nameLength });
  }
  if (!/^[A-Za-z][A-Za-z0-9]*$/.test(name)) throw new ServiceError("InvalidResourceName");
  if (name.toLowerCase() === "tables") throw new ServiceError("InvalidInput");
}
