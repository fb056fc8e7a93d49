import { ServiceError } from "@rowhouse/protocol/errors";

/*
 * What requests for one entity are refused with, again and again where clients contend or look for
 * what may not be there. Made once: an error takes its stack along, which was a fifth of the
 * processor time of such a request.
 */

export const ENTITY_TAKEN = new ServiceError("EntityAlreadyExists");
export const ENTITY_MISSING = new ServiceError("ResourceNotFound");
export const ENTITY_CHANGED = new ServiceError("UpdateConditionNotSatisfied");
