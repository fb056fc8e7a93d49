import { spawn, spawnSync } from "node:child_process";
import { text } from "node:stream/consumers";
import { fileURLToPath } from "node:url";

const PROGRAM = fileURLToPath(new URL("python-queries.py", import.meta.url));

/** A Python that has the official client for tables: that of the system may, if the first on the path does not. */
export function pythonWithTables(): string | undefined {
  return ["python3", "/usr/bin/python3"].find(
    (python) => spawnSync(python, ["-c", "import azure.data.tables"]).status === 0,
  );
}

export interface PythonQueries {
  /** Of the account. */
  readonly url: string;
  readonly account: string;
  readonly key: string;
  readonly table: string;
  readonly filters: readonly string[];
}

/** What the client for Python finds with each filter, and how the server read the last page of it. */
export async function queryWithPython<Row>(
  python: string,
  queries: PythonQueries,
): Promise<readonly { readonly rows: readonly Row[]; readonly plan: string }[]> {
  const child = spawn(python, [PROGRAM], { stdio: ["pipe", "pipe", "inherit"] });
  child.stdin.end(JSON.stringify(queries));
  return JSON.parse(await text(child.stdout));
}
