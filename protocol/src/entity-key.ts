import { ServiceError } from "./errors.ts";
import { LIMITS } from "./limits.ts";

/** What an entity is found by, within its table. Either may be empty. */
export interface EntityKeys {
  readonly partitionKey: string;
  readonly rowKey: string;
}

/**
 * Checks a key that came in a body; keys in URLs are refused in other words.
 * @throws ServiceError OutOfRangeInput, PropertyValueTooLarge.
 */
export function checkBodyKey(name: "PartitionKey" | "RowKey", key: string): void {
  if (FORBIDDEN.test(key)) throw outOfRange(name, key);
  if (key.length > LIMITS.keyLengthMax) throw new ServiceError("PropertyValueTooLarge");
}

/** The refusal of a value that its property cannot have. */
export function outOfRange(name: string, value: string): ServiceError {
  return new ServiceError("OutOfRangeInput", {
    message: `The '${name}' parameter of value '${value}' is out of range.`,
  });
}

/** `/`, `\`, `#`, `?`, a control character or half a surrogate pair. */
const FORBIDDEN = /[/\\#?\p{Cc}\p{Cs}]/u;
