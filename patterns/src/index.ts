export { type ConnectOptions, connect, type Database, type DatabaseEvent } from "./database.ts";
export { type EntityDefinition, entity, type Infer } from "./entities/entity.ts";
export type { KeyOf, Repository } from "./entities/repository.ts";
export {
  type Issue,
  isTableError,
  type TableError,
  type TableErrorCode,
  type TableErrorPayloads,
} from "./errors.ts";
export { k } from "./keys/key.ts";
export { f } from "./model/field.ts";
export type { Openable } from "./model/openable.ts";
export type { Explanation, Permit, Plan, Query, QueryPage, Saved } from "./query/query.ts";
