/** A query as it may be shown: a signature opens, while it lasts, what a key does. */
export function withoutSignature(query: string): string {
  const shown = query.split("&").map((pair) => {
    const name = pair.split("=", 1)[0]!;
    return isSignature(name) ? `${name}=XXXXX` : pair;
  });
  return shown.join("&");
}

/** Also when it is escaped, as servers understand it. */
function isSignature(name: string): boolean {
  try {
    return decodeURIComponent(name).trim().toLowerCase() === "sig";
  } catch {
    return false;
  }
}
