import { ServiceError } from "./errors.ts";
import { LIMITS } from "./limits.ts";

/** The keys that identify an entity within its table. Either may be empty. */
export interface EntityKeys {
  readonly partitionKey: string;
  readonly rowKey: string;
}

/**
 * Checks a key from a body; for keys in URLs the service has other error messages.
 * @throws ServiceError OutOfRangeInput, PropertyValueTooLarge.
 */
export function checkBodyKey(name: "PartitionKey" | "RowKey", key: string): void {
  if (FORBIDDEN.test(key)) throw outOfRange(name, key);
  if (key.length > LIMITS.keyLengthMax) throw new ServiceError("PropertyValueTooLarge");
}

/** The error for a value that its property cannot hold. */
export function outOfRange(name: string, value: string): ServiceError {
  return new ServiceError("OutOfRangeInput", {
    message: `The '${name}' parameter of value '${value}' is out of range.`,
  });
}

/** `/`, `\`, `#`, `?`, a control character or half a surrogate pair. */
const FORBIDDEN = /[/\\#?\p{Cc}\p{Cs}]/u;
