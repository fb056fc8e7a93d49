import { connect } from "../src/index.ts";
import { delimited, jsonLines, logFiles } from "../src/logs.ts";
import { memory } from "../src/testing.ts";

const db = connect(memory());
const Lines = logFiles({ container: "logs", service: "web", format: delimited("level", "path") });
const format = jsonLines<{ at: Date; bytes: number; tags?: string[] }>();
const Objects = logFiles({ container: "logs", service: "web", format });

export async function accepted() {
  const writer = db.open(Lines).writer({ durability: "each", flush: { ms: 100 } });
  await writer.write({ at: new Date(), level: "info", path: "/" });
  await db.open(Objects).writer().write({ at: new Date(), bytes: 3 });
  const day = { from: new Date(), to: new Date() };
  for await (const line of db.open(Lines).read(day)) void (line.path satisfies string);
  for await (const { tags } of db.open(Objects).read({ ...day, where: ({ bytes }) => bytes > 3 })) {
    void (tags satisfies string[] | undefined);
  }
}

export async function refused() {
  // error: Property 'path' is missing
  await db.open(Lines).writer().write({ at: new Date(), level: "info" });
  // error: Property 'at' is missing
  await db.open(Objects).writer().write({ bytes: 3 });
  // error: '"always"'
  db.open(Lines).writer({ durability: "always" });
  // error: Property 'to' is missing
  db.open(Lines).read({ from: new Date() });
  // error: Property 'bytes' is missing
  await db.open(Objects).writer().write({ at: new Date() });
}
