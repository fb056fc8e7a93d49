import type { RequestHead } from "../operation.ts";

export type Preference = "return-content" | "return-no-content";

/** What `Prefer` asks of Create Table and Insert Entity; anything unknown is as if absent. */
export function preferenceOf(request: RequestHead): Preference | undefined {
  const prefer = request.header("prefer")?.trim().toLowerCase();
  return prefer === "return-content" || prefer === "return-no-content" ? prefer : undefined;
}
