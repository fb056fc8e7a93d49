import { signal } from "@preact/signals";
import { ServerError } from "./session.ts";
import { readTables } from "./table-facts.ts";

/** The names of the account's tables, for the rail and the list. */
export class TableNames {
  readonly names = signal<readonly string[] | undefined>(undefined);
  readonly failure = signal<ServerError | undefined>(undefined);

  async refresh(): Promise<void> {
    try {
      this.names.value = await readTables();
      this.failure.value = undefined;
    } catch (error) {
      if (!(error instanceof ServerError)) throw error;
      this.failure.value = error;
    }
  }
}
