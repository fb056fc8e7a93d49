/** What was taken over: entities, messages, blobs; and what was left because it is newer here. */
export interface ImportCounts {
  tables: number;
  entities: number;
  queues: number;
  messages: number;
  containers: number;
  blobs: number;
  newerHere: number;
}

/** What takes the rows of one of the emulator's three files. */
export interface RowImport {
  /** @throws Error, ServiceError: this row cannot be taken */
  take(collection: string, bytes: Buffer): void | Promise<void>;
  /** Writes what `take` still holds back. */
  finish(): Promise<void>;
}
