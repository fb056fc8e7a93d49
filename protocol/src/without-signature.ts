/** A query that is safe to show: while it is valid, a signature grants access as a key does. */
export function withoutSignature(query: string): string {
  const shown = query.split("&").map((pair) => {
    const name = pair.split("=", 1)[0]!;
    return isSignature(name) ? `${name}=XXXXX` : pair;
  });
  return shown.join("&");
}

/** Also matches escaped names, because servers decode them. */
function isSignature(name: string): boolean {
  try {
    return decodeURIComponent(name).trim().toLowerCase() === "sig";
  } catch {
    return false;
  }
}
