import type { RequestHead } from "../wire/operation.ts";

export type Preference = "return-content" | "return-no-content";

/** The `Prefer` header of Create Table and Insert Entity; an unknown value counts as absent. */
export function preferenceOf(request: Pick<RequestHead, "header">): Preference | undefined {
  const prefer = request.header("prefer");
  if (prefer === undefined || isPreference(prefer)) return prefer;
  const spelt = prefer.trim().toLowerCase();
  return isPreference(spelt) ? spelt : undefined;
}

function isPreference(text: string): text is Preference {
  return text === "return-no-content" || text === "return-content";
}
