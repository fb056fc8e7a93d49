import { batch } from "../src/batch.ts";
import { inbox, inboxIn } from "../src/inbox.ts";
import { connect, entity, f, type Infer, k } from "../src/index.ts";
import { outbox, outboxReplay } from "../src/outbox.ts";
import { createWorker, type Handler, later } from "../src/queue-worker.ts";
import { saga } from "../src/saga.ts";
import { siblingIndex } from "../src/sibling-index.ts";
import { memory } from "../src/testing.ts";

const key = { partition: [k.str("bank")], row: [k.lit("account"), k.uint("id", 4)] } as const;
const fields = { bank: f.string(), id: f.int32(), balance: f.int32() };
const Account = entity("Account", { version: 1, fields, key });
const Told = entity("Told", {
  version: 1,
  fields,
  key,
  followers: {
    events: outbox({
      queue: "events",
      message: ({ key: { rowKey } }) => ({ kind: "changed", key: rowKey, body: null }),
    }),
    typed: outbox<Infer<typeof fields>>({
      queue: "events",
      message: ({ before, after }) => {
        const balance: number | undefined = (after ?? before?.row)?.balance;
        return { kind: "changed", key: "", body: balance };
      },
    }),
  },
});
const Indexed = entity("Indexed", {
  version: 1,
  fields,
  key,
  indexes: {
    balance: siblingIndex({
      row: [k.lit("b"), k.int("balance", 9), k.uint("id", 4)],
      when: ({ balance }: Infer<typeof fields>) => balance > 0,
    }),
    digit: siblingIndex({
      row: [k.lit("d"), k.uint("digit", 1), k.uint("id", 4)],
      each: { digit: ({ id }: Infer<typeof fields>) => [id % 10] },
    }),
  },
});
const Parcel = entity("Parcel", {
  version: 1,
  fields: { bank: f.string(), id: f.int32(), state: f.oneOf("new", "sent") },
  key: { partition: [k.str("bank")], row: [k.lit("parcel"), k.uint("id", 4)] },
});
const db = connect(memory());
const bank = { bank: "north" };
const message = { id: "01J", at: "2026-01-01T00:00:00Z" };
const close = saga("close-account", (s) =>
  s
    .input<{ bank: string; id: number }>()
    .step("read", async ({ input, db }) => (await db.open(Account).mustGet(input)).balance)
    .step("pay", async ({ results }) => results.read satisfies number),
);
const handler: Handler = { kind: "changed", handle: async () => later(1000) };

export async function accepted() {
  await db.tx(bank, (tx) => tx.update(Parcel, { ...bank, id: 1 }, () => ({ state: "sent" })));
  const outcome = await db.open(inbox("Seen")).once(message, async () => ({ receipt: 1 }));
  void (outcome.receipt satisfies number);
  const once = await db.open(inboxIn(Account)).once(bank, message, (tx) => {
    tx.insert(Account, { ...bank, id: 1, balance: 0 });
  });
  void (once satisfies boolean);
  await batch(db, (b) => b.upsert(Account, { ...bank, id: 1, balance: 0 }), { mode: "atomic" });
  await db.open(Told).delete({ ...bank, id: 1 });
  const worker = createWorker(db, { queue: "events", handlers: [handler, close, outboxReplay()] });
  void ((await worker.drain()) satisfies number);
  await close.start(db, { id: "c-1", input: { ...bank, id: 1 } });
  await db.tx(bank, async (tx) => (await tx.get(Account, { ...bank, id: 1 }))?.balance);
}

export async function refused() {
  // error: not assignable to type 'Promise<Json>'
  await db.open(inbox("Seen")).once(message, async () => new Date());
  // error: Property 'at' is missing
  await db.open(inbox("Seen")).once({ id: "01J" }, async () => 1);
  // error: Property 'bank' is missing
  await db.open(inboxIn(Account)).once({}, message, () => undefined);
  // error: 'owner' does not exist
  await db.tx(bank, (tx) => tx.insert(Account, { ...bank, id: 1, balance: 0, owner: "ann" }));
  // error: Type '"lost"' is not assignable to type
  await db.tx(bank, (tx) => tx.update(Parcel, { ...bank, id: 1 }, () => ({ state: "lost" })));
  // error: not assignable to type 'never'
  await batch(db, (b) => b.delete(Indexed, { ...bank, id: 1 }));
  // error: Property 'id' is missing
  await close.start(db, { id: "c-1", input: bank });
  // error: 'string' is not assignable to type 'Handler'
  createWorker(db, { queue: "events", handlers: ["changed"] });
  // error: Property 'body' is missing
  outbox({ queue: "events", message: () => ({ kind: "changed", key: "" }) });
}
