/**
 * Where the page is, all of it in the part of the address that is never sent:
 *
 *     #/                                        the tables
 *     #/t/People?filter=…&explain=1             a table
 *     #/heat/People?kind=written                another screen, and what it shows
 */
export interface Route {
  /** Undefined: the list of tables. */
  readonly table: string | undefined;
  readonly filter: string;
  readonly explains: boolean;
  readonly screen: ScreenName | undefined;
  /** What a screen shows, such as a table; "" for all. */
  readonly subject: string;
  /** How a screen shows it. */
  readonly view: Readonly<Record<string, string>>;
}

export const SCREENS = [
  "queues",
  "blobs",
  "heat",
  "activity",
  "advisor",
  "sas",
  "playground",
] as const;
export type ScreenName = (typeof SCREENS)[number];

export function screenAddress(
  screen: ScreenName,
  subject = "",
  view: Readonly<Record<string, string>> = {},
): string {
  const path = `#/${screen}${subject && `/${encodeURIComponent(subject)}`}`;
  const query = new URLSearchParams(
    Object.entries(view).filter(([, value]) => value !== ""),
  ).toString();
  return `${path}${query && `?${query}`}`;
}

export function readRoute(text: string): Route {
  const [, name, query = ""] = /^#\/t\/([^?]+)(?:\?(.*))?$/.exec(text) ?? [];
  const parameters = new URLSearchParams(query);
  const [, screen, subject = "", view = ""] =
    /^#\/(\w+)(?:\/([^?]*))?(?:\?(.*))?$/.exec(text) ?? [];
  return {
    table: name !== undefined && /^\w+$/.test(name) ? name : undefined,
    filter: parameters.get("filter") ?? "",
    explains: parameters.get("explain") === "1",
    screen: SCREENS.find((each) => each === screen),
    subject: decoded(subject),
    view: Object.fromEntries(new URLSearchParams(view)),
  };
}

export function addressOf({ table, filter = "", explains = false }: Partial<Route>): string {
  if (table === undefined) return "#/";
  const query = new URLSearchParams({
    ...(filter !== "" && { filter }),
    ...(explains && { explain: "1" }),
  }).toString();
  return `#/t/${table}${query && `?${query}`}`;
}

function decoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return "";
  }
}
