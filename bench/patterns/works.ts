import {
  AzureNamedKeyCredential,
  odata,
  TableClient,
  TableServiceClient,
  type TransactionAction,
} from "@azure/data-tables";
import { type ConnectOptions, connect, type Database, entity, f, k } from "@rowhouse/patterns";
import { azureTables } from "@rowhouse/patterns/azure-tables";
import { batch } from "@rowhouse/patterns/batch";
import { remoteIndex } from "@rowhouse/patterns/remote-index";
import { siblingIndex } from "@rowhouse/patterns/sibling-index";
import { spread } from "@rowhouse/patterns/spread";

/** An operation implemented by the library and by hand; both send the same requests. */
export interface PatternWork {
  readonly name: string;
  library(i: number): Promise<unknown>;
  byHand(i: number): Promise<unknown>;
}

const PARTITIONS = 10;
const PARTITION_EMPLOYEES = 200;
const BATCH = 100;
/** The ids of all inserts, shared by both implementations: an id is used once. */
let nextId = PARTITION_EMPLOYEES;

const Employee = entity("Employee", {
  version: 1,
  fields: {
    dept: f.string(),
    id: f.int32(),
    email: f.string(),
    lastName: f.string(),
    town: f.string(),
    age: f.int32(),
    hiredAt: f.date(),
  },
  key: { partition: [k.str("dept")], row: [k.lit("empid"), k.uint("id", 8)] },
  indexes: {
    email: siblingIndex({ row: [k.lit("email"), k.str("email")], unique: true }),
    lastName: siblingIndex({
      row: [k.lit("last"), k.str("lastName"), k.uint("id", 8)],
      copy: ["email"],
    }),
  },
});

/** Looked up in another table, by a key that hand-written code can build as well. */
const Citizen = entity("Citizen", {
  version: 1,
  fields: { town: f.string(), id: f.int32(), email: f.string(), age: f.int32() },
  key: { partition: [k.str("town")], row: [k.lit("c"), k.uint("id", 8)] },
  indexes: {
    email: remoteIndex({
      table: "CitizenByEmail",
      partition: [k.lit("email")],
      row: [k.str("email")],
      unique: true,
      mode: "inline",
    }),
  },
});
const CITIZENS = 500;

const BUCKETS = 16;
const VISITS = 320;
const Visits = spread("Visit", {
  fields: { site: f.string(), at: f.date(), page: f.string() },
  stream: [k.str("site")],
  at: "at",
  buckets: BUCKETS,
});
const VISITS_FROM = Date.UTC(2026, 0, 1);

const Note = entity("Note", {
  version: 1,
  fields: { book: f.string(), id: f.int32(), text: f.string() },
  key: { partition: [k.str("book")], row: [k.uint("id", 8)] },
});

export interface Account {
  readonly url: string;
  readonly name: string;
  readonly keyBase64: string;
}

export class PatternBench {
  readonly database: Database;
  readonly works: readonly PatternWork[];
  /** The official clients, one for each table. */
  readonly client: (table: string) => TableClient;

  constructor({ url, name, keyBase64 }: Account, options: Pick<ConnectOptions, "clock" | "meter">) {
    const credential = new AzureNamedKeyCredential(name, keyBase64);
    const insecure = { allowInsecureConnection: true };
    const service = new TableServiceClient(url, credential, insecure);
    this.database = connect({
      tables: azureTables(service, { profile: "rowhouse" }),
      ...options,
    });
    const clients = new Map<string, TableClient>();
    this.client = (table) => {
      const known = clients.get(table) ?? new TableClient(url, table, credential, insecure);
      clients.set(table, known);
      return known;
    };
    this.works = [
      this.#pointRead(),
      this.#indexRead(),
      this.#remoteRead("verify"),
      this.#remoteRead("eventual"),
      this.#rangeOf100(),
      this.#tailOf10(),
      this.#fanIn(),
      this.#insert(),
      this.#update(),
      this.#batchOf(1),
      this.#batchOf(10),
    ];
  }

  async fill(): Promise<void> {
    await this.database.createTables(Employee, Note, Citizen, Visits);
    const results = await batch(this.database, (plan) => {
      for (let i = 0; i < PARTITIONS * PARTITION_EMPLOYEES; i++) {
        plan.insert(Employee, employeeOf(i % PARTITIONS, Math.floor(i / PARTITIONS)));
      }
    });
    for (const result of results) if (!result.ok) throw result.error;
    const citizens = this.database.open(Citizen);
    for (let id = 0; id < CITIZENS; id++) {
      await citizens.insert({ town: deptOf(id), id, email: emailOf(id), age: id });
    }
    const visits = this.database.open(Visits);
    for (let i = 0; i < VISITS; i++) {
      await visits.append({ site: "home", at: new Date(VISITS_FROM + i), page: `page${i}` });
    }
  }

  #pointRead(): PatternWork {
    const employees = this.database.open(Employee);
    const client = this.client("Employee");
    return {
      name: "point query",
      library: (i) => employees.get(keyOf(i)),
      byHand: async (i) => {
        const { dept, id } = keyOf(i);
        const found = await client.getEntity(dept, rowKeyOf(id));
        return fromRow(found);
      },
    };
  }

  #indexRead(): PatternWork {
    const employees = this.database.open(Employee);
    const client = this.client("Employee");
    return {
      name: "lookup by a sibling index",
      library: (i) => {
        const { dept, id } = keyOf(i);
        return employees.by.email.get({ dept, email: emailOf(id) });
      },
      byHand: async (i) => {
        const { dept, id } = keyOf(i);
        return fromRow(await client.getEntity(dept, `email_${emailOf(id)}`));
      },
    };
  }

  #remoteRead(consistency: "verify" | "eventual"): PatternWork {
    const citizens = this.database.open(Citizen);
    const [bases, entries] = [this.client("Citizen"), this.client("CitizenByEmail")];
    return {
      name: `lookup by a remote index, ${consistency === "verify" ? "checked" : "from its entry"}`,
      library: (i) => citizens.by.email.get({ email: emailOf(i % CITIZENS) }, { consistency }),
      byHand: async (i) => {
        const email = emailOf(i % CITIZENS);
        const entry = await entries.getEntity("email", email);
        if (consistency === "eventual") return toCitizen(entry);
        const base = await bases.getEntity(String(entry.basePK), String(entry.baseRK));
        return base.email === email ? toCitizen(base) : undefined;
      },
    };
  }

  /** Sixteen buckets read concurrently and merged by time. */
  #fanIn(): PatternWork {
    const visits = this.database.open(Visits);
    const client = this.client("Visit");
    const interval = { from: new Date(VISITS_FROM), to: new Date(VISITS_FROM + VISITS) };
    const rows = { from: ticksOf(interval.from), to: ticksOf(interval.to) };
    return {
      name: `range of ${VISITS} merged from ${BUCKETS} buckets`,
      library: async () => {
        const all = [];
        for await (const visit of visits.rangeInOrder({ site: "home", ...interval })) {
          all.push(visit);
        }
        return all;
      },
      byHand: async () => {
        const buckets = Array.from({ length: BUCKETS }, async (_, bucket) => {
          const partition = `${String(bucket).padStart(2, "0")}_home`;
          const filter = odata`PartitionKey eq ${partition} and RowKey ge ${rows.from} and RowKey lt ${rows.to}`;
          const found = [];
          for await (const { rowKey = "", at, page } of client.listEntities({
            queryOptions: { filter },
          })) {
            found.push({ rowKey, site: "home", at: new Date(String(at)), page: String(page) });
          }
          return found;
        });
        const all = (await Promise.all(buckets)).flat();
        return all.sort((a, b) => (a.rowKey < b.rowKey ? -1 : 1));
      },
    };
  }

  #rangeOf100(): PatternWork {
    const employees = this.database.open(Employee);
    const client = this.client("Employee");
    return {
      name: "range query of 100",
      library: (i) => employees.range({ dept: deptOf(i), id: { gte: 50, lt: 150 } }).all(),
      byHand: (i) =>
        listed(
          client,
          odata`PartitionKey eq ${deptOf(i)} and RowKey ge ${rowKeyOf(50)} and RowKey lt ${rowKeyOf(150)}`,
        ),
    };
  }

  #tailOf10(): PatternWork {
    const employees = this.database.open(Employee);
    const client = this.client("Employee");
    return {
      name: "the first 10 of a partition",
      library: (i) =>
        employees
          .range({ dept: deptOf(i) })
          .limit(10)
          .all(),
      byHand: async (i) => {
        const filter = odata`PartitionKey eq ${deptOf(i)} and RowKey ge ${"empid_"} and RowKey lt ${"empid`"}`;
        const pages = client.listEntities({ queryOptions: { filter } }).byPage({ maxPageSize: 10 });
        for await (const page of pages) return page.map(fromRow);
        return [];
      },
    };
  }

  #insert(): PatternWork {
    const employees = this.database.open(Employee);
    const client = this.client("Employee");
    return {
      name: "insert with two sibling entries",
      library: (i) => employees.insert(employeeOf(i % PARTITIONS, nextId++)),
      byHand: (i) => {
        const employee = employeeOf(i % PARTITIONS, nextId++);
        return client.submitTransaction(rowsOf(employee).map((row) => ["create", row]));
      },
    };
  }

  #update(): PatternWork {
    const employees = this.database.open(Employee);
    const client = this.client("Employee");
    return {
      name: "update with two sibling entries",
      // Each has its own employees, so that neither waits for the other.
      library: (i) => employees.update(keyOf(i % 500), ({ age }) => ({ age: age + 1 })),
      byHand: async (i) => {
        const { dept, id } = keyOf(i % 500);
        const found = await client.getEntity(dept, rowKeyOf(id));
        const [base, ...entries] = rowsOf({ ...fromRow(found), age: Number(found.age) + 1 });
        const actions: TransactionAction[] = [
          ["update", base!, "Merge", { etag: found.etag }],
          ...entries.map((row): TransactionAction => ["upsert", row, "Replace"]),
        ];
        return client.submitTransaction(actions);
      },
    };
  }

  /** A hundred inserts for each of this many partitions, concurrently. */
  #batchOf(partitions: number): PatternWork {
    const client = this.client("Note");
    const books = (i: number) =>
      Array.from({ length: partitions }, (_, at) => {
        const from = nextId;
        nextId += BATCH;
        const notes = Array.from({ length: BATCH }, (_, n) => ({
          id: from + n,
          text: `text ${n}`,
        }));
        return { book: deptOf(i + at), notes };
      });
    return {
      name: `batch of ${(partitions * BATCH).toLocaleString("en")} inserts`,
      library: (i) =>
        batch(this.database, (plan) => {
          for (const { book, notes } of books(i)) {
            for (const note of notes) plan.insert(Note, { book, ...note });
          }
        }),
      byHand: (i) =>
        Promise.all(
          books(i).map(({ book, notes }) =>
            client.submitTransaction(
              notes.map(({ id, text }) => [
                "create",
                { partitionKey: book, rowKey: String(id).padStart(8, "0"), text: typed(text) },
              ]),
            ),
          ),
        ),
    };
  }
}

type Row = typeof Employee.infer;

export function deptOf(i: number): string {
  return `dept${i % PARTITIONS}`;
}

function keyOf(i: number): { dept: string; id: number } {
  return { dept: deptOf(i), id: Math.floor(i / PARTITIONS) % PARTITION_EMPLOYEES };
}

function emailOf(id: number): string {
  return `employee${id}@contoso.com`;
}

function employeeOf(partition: number, id: number): Row {
  return {
    dept: deptOf(partition),
    id,
    email: emailOf(id),
    lastName: `Jones${id % 50}`,
    town: "Redmond",
    age: 30 + (id % 30),
    hiredAt: new Date(1_700_000_000_000),
  };
}

function rowKeyOf(id: number): string {
  return `empid_${String(id).padStart(8, "0")}`;
}

export function typed(value: string) {
  return { type: "String", value } as const;
}

/** The base and its two entries, as the library stores them. */
function rowsOf({ dept, id, email, lastName, town, age, hiredAt }: Row) {
  const own = {
    email: typed(email),
    lastName: typed(lastName),
    town: typed(town),
    age: { type: "Int32", value: String(age) },
    hiredAt: { type: "DateTime", value: hiredAt.toISOString() },
  };
  const token = typed("01KDVDNA00M0GZY8KQDZEF4C74");
  const rowKey = rowKeyOf(id);
  const entry = { partitionKey: dept, baseRK: typed(rowKey), rh_w: token };
  const { email: _email, ...rest } = own;
  return [
    { partitionKey: dept, rowKey, ...own, rh_t: typed("Employee:1"), rh_w: token },
    { ...entry, rowKey: `email_${email}`, ...rest, rh_t: typed("Employee.email:1") },
    {
      ...entry,
      rowKey: `last_${lastName}_${String(id).padStart(8, "0")}`,
      email: own.email,
      rh_t: typed("Employee.lastName:1"),
    },
  ];
}

/** Into the application's form, as any program would. */
function fromRow(found: Record<string, unknown>): Row {
  return {
    dept: String(found.partitionKey),
    id: Number(String(found.rowKey).slice(-8)),
    email: String(found.email),
    lastName: String(found.lastName),
    town: String(found.town),
    age: Number(found.age),
    hiredAt: new Date(String(found.hiredAt)),
  };
}

function toCitizen(found: Readonly<Record<string, unknown>>) {
  const town = String(found.basePK ?? found.partitionKey);
  return { town, email: String(found.email), age: Number(found.age) };
}

/** The prefix of their row keys. */
function ticksOf(date: Date): string {
  return String(BigInt(date.getTime()) * 10_000n + 621_355_968_000_000_000n).padStart(19, "0");
}

async function listed(client: TableClient, filter: string): Promise<Row[]> {
  const rows: Row[] = [];
  for await (const found of client.listEntities({ queryOptions: { filter } })) {
    rows.push(fromRow(found));
  }
  return rows;
}
