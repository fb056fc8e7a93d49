import { TableClient } from "@azure/data-tables";

/** The two versions of a small web shop: the same work, on badly and on well designed tables. */
export interface Shop {
  readonly name: string;
  run(tables: ShopTables): Promise<void>;
}

export interface ShopTables {
  open(name: string): Promise<TableClient>;
  /** Lets some time pass, as between two requests of a user. */
  pause(): void;
}

export const CUSTOMERS = 200;
export const PRODUCTS = ["lamp", "chair", "table", "shelf", "sofa", "rug"];
export const SENSORS = ["door", "window", "roof", "cellar"];
export const HOURS = Array.from({ length: 24 }, (_, hour) => String(hour).padStart(2, "0"));

export function openTables(connectionString: string, pause: () => void): ShopTables {
  return {
    pause,
    async open(name) {
      const table = TableClient.fromConnectionString(connectionString, name, {
        allowInsecureConnection: true,
        retryOptions: { maxRetries: 0 },
      });
      await table.createTable();
      return table;
    },
  };
}

export function emailOf(customer: number): string {
  return `person${(customer * 77) % CUSTOMERS}@contoso.example`;
}

/** The events that the shop logs. */
export function eventTime(index: number): string {
  return new Date(Date.UTC(2026, 10, 20, 10) + index * 1500).toISOString();
}

export async function countOf(entities: AsyncIterable<object>): Promise<number> {
  let count = 0;
  for await (const _ of entities) count++;
  return count;
}
