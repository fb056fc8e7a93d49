import { connect, entity, f, k } from "../src/index.ts";
import { missing } from "../src/missing.ts";
import { siblingIndex } from "../src/sibling-index.ts";
import { memory } from "../src/testing.ts";

const Person = entity("Person", {
  version: 1,
  fields: { dept: f.string(), id: f.int32(), town: f.string().optional() },
  key: { partition: [k.str("dept")], row: [k.lit("p"), k.uint("id", 3)] },
  indexes: {
    town: siblingIndex({
      row: k.ordered(k.lit("town"), missing("last", k.str("town")), k.uint("id", 3)),
    }),
    known: siblingIndex({ row: k.ordered(k.lit("known"), k.str("town"), k.uint("id", 3)) }),
  },
});
const people = connect(memory()).open(Person);

people.by.town.range({ dept: "Sales", town: null });
people.by.town.range({ dept: "Sales", town: "Redmond", id: { gte: 3 } });
people.by.town.range({ dept: "Sales", town: { startsWith: "R" } });

// error: not assignable
people.by.known.range({ dept: "Sales", town: null });
// error: not assignable
people.by.town.range({ dept: "Sales", town: 3 });
