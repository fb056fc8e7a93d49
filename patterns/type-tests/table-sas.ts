import { entity, f, k } from "../src/index.ts";
import { siblingIndex } from "../src/sibling-index.ts";
import { sasIssuer } from "../src/table-sas.ts";

const Employee = entity("Employee", {
  version: 1,
  fields: { dept: f.string(), team: f.string(), id: f.int32(), email: f.string() },
  key: { partition: [k.str("dept")], row: [k.lit("e"), k.str("team"), k.uint("id", 6)] },
  indexes: { email: siblingIndex({ row: [k.lit("email"), k.str("email")], unique: true }) },
});
const issuer = sasIssuer({ account: "acme", key: "a2V5" });
const partition = { dept: "Sales" };

export async function accepted() {
  const { expiresAt } = await issuer.sasFor(Employee, { partition, rows: { team: "north" } });
  void (expiresAt satisfies Date | undefined);
  await issuer.sasFor(Employee, { partition, permissions: ["read", "update"], ttlMs: 1000 });
  await issuer.sasForIndex(Employee, "email", { partition, rows: { email: "a@b" } });
}

export function refused() {
  // error: 'dept' is missing
  issuer.sasFor(Employee, { partition: {} });
  // error: '"write"' is not assignable
  issuer.sasFor(Employee, { partition, permissions: ["write"] });
  // error: '"mail"' is not assignable
  issuer.sasForIndex(Employee, "mail", { partition });
  // error: Property 'team' is missing
  issuer.sasFor(Employee, { partition, rows: { id: 3 } });
}
