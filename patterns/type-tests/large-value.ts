import { connect, entity, f, k } from "../src/index.ts";
import { largeValueFields, largeValues } from "../src/large-value.ts";
import { memory } from "../src/testing.ts";

const Employee = entity("Employee", {
  version: 1,
  fields: { dept: f.string(), id: f.int32(), ...largeValueFields("photo") },
  key: { partition: [k.str("dept")], row: [k.uint("id", 6)] },
});
const db = connect(memory());
const photos = db.open(largeValues(Employee, { name: "photo", container: "photos" }));

export async function accepted() {
  await photos.put({ dept: "Sales", id: 1 }, new Uint8Array(3), "image/png");
  const value = await photos.get({ dept: "Sales", id: 1 });
  const row = await db.open(Employee).get({ dept: "Sales", id: 1 });
  return [value?.body.length, row?.photo_len satisfies number | undefined];
}

export async function refused() {
  // error: Property 'id' is missing
  await photos.get({ dept: "Sales" });
  // error: '"portrait"' is not assignable
  largeValues(Employee, { name: "portrait", container: "photos" });
}
