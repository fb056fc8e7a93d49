import { connect, f, k } from "../src/index.ts";
import { logTail } from "../src/log-tail.ts";
import { memory } from "../src/testing.ts";

const fields = { empId: f.string(), filedAt: f.date(), amount: f.int32() };
const Expense = logTail("EmployeeExpense", { fields, stream: [k.str("empId")], at: "filedAt" });
const log = connect(memory()).open(Expense);

export async function accepted() {
  const { entryId } = await log.append({ empId: "1", amount: 3 });
  await log.append({ empId: "1", amount: 3, filedAt: new Date() });
  const [newest] = await log.tail({ empId: "1" }, 10);
  const amount: number | undefined = newest?.amount;
  await log.since({ empId: "1" }, new Date()).limit(5).all();
  return [entryId, amount];
}

export async function refused() {
  // error: Property 'amount' is missing
  await log.append({ empId: "1" });
  // error: 'empID' does not exist
  await log.tail({ empID: "1" }, 10);
  const large = log.all({ empId: "1" }).where((c) => c.amount.gt(3));
  // error: Add an index, or pass { allow: '
  await large.all();
  // error: not assignable to type '"filedAt"'
  logTail("X", { fields, stream: [k.str("empId")], at: "amount" });
}
