// Types are exported if a declaration, or what is opened from it, may be inferred to have them.
export {
  type ConnectOptions,
  connect,
  type Database,
  type DatabaseEvent,
  type WithBlobs,
  type WithQueues,
} from "./database.ts";
export { type EntityDefinition, entity, type Infer } from "./entities/entity.ts";
export type { Changes, KeyOf, Repository } from "./entities/repository.ts";
export {
  type Issue,
  isTableError,
  type TableError,
  type TableErrorCode,
  type TableErrorPayloads,
} from "./errors.ts";
export {
  type KeyDeclaration,
  type KeyPart,
  k,
  type LaidOut,
  type Literal,
  type Segment,
} from "./keys/key.ts";
export type { KeyShape } from "./keys/key-shape.ts";
export type { Row } from "./model/entity-rows.ts";
export { type Field, f } from "./model/field.ts";
export type { AnyEntity, Index } from "./model/follower.ts";
export type { KeyEquality, RowQuery } from "./model/key-query.ts";
export type { Openable } from "./model/openable.ts";
export type { BlobContent, BlobsPort } from "./ports/blobs.ts";
export type { EdmValue, Properties } from "./ports/edm.ts";
export { printFilter } from "./ports/filter.ts";
export { isRefusal, PortError } from "./ports/port-error.ts";
export type { ProfileName } from "./ports/profile.ts";
export type { QueuesPort } from "./ports/queues.ts";
export type { Mutation, StoredEntity, TablesPort } from "./ports/tables.ts";
export type { Explanation, Permit, Plan, Query, QueryPage, Saved } from "./query/query.ts";
export type { Layer } from "./store/layer.ts";
