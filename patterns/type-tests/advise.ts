import { advise } from "../src/advise.ts";

const workload = { reads: 1, writes: 1 };
const rows = [{ town: "Redmond", zip: 98052 }];

export async function accepted() {
  const { verdict } = await advise(rows, { valueIn: ({ town }) => town, workload });
  await advise(rows, { valueIn: ({ zip }) => zip, workload });
  return verdict satisfies "keep" | "sparse" | "drop";
}

export async function refused() {
  // error: Property 'city' does not exist
  await advise(rows, { valueIn: ({ city }) => city, workload });
  // error: Type '{ zip: number; }' is not assignable
  await advise(rows, { valueIn: ({ zip }) => ({ zip }), workload });
}
