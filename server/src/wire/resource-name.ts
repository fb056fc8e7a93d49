import { ERROR_TEXTS, ServiceError } from "@rowhouse/protocol/errors";
import { LIMITS } from "@rowhouse/protocol/limits";

const NAME = /^[a-z0-9](?:-?[a-z0-9])*$/;

/**
 * The rule for queue and container names: 3 to 63 lower-case letters, digits and single hyphens between them.
 * The length is checked before the characters.
 * Source: "Naming queues and metadata", "Naming and referencing containers, blobs, and metadata".
 * @throws ServiceError OutOfRangeInput or InvalidResourceName.
 */
export function checkResourceName(name: string): void {
  if (name.length < LIMITS.resourceNameLengthMin || name.length > LIMITS.resourceNameLengthMax) {
    throw new ServiceError("OutOfRangeInput", { message: ERROR_TEXTS.nameLength });
  }
  if (!NAME.test(name)) {
    throw new ServiceError("InvalidResourceName", { message: ERROR_TEXTS.nameCharacters });
  }
}
