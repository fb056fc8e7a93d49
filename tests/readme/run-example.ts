import { execFile } from "node:child_process";
import { readFileSync, rmSync, writeFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";

const root = new URL("../../", import.meta.url);

/**
 * Runs the first example of a page as printed. Returns its output and the output that the page shows.
 * @param page its path from the root of the repository
 */
export async function runExample(
  page: string,
  environment: NodeJS.ProcessEnv = {},
): Promise<{ readonly printed: string; readonly promised: string }> {
  const text = readFileSync(new URL(page, root), "utf8");
  const [, example = "", promised = ""] = /```js\n(.*?)```.*?```text\n(.*?)```/s.exec(text) ?? [];
  // At the root, where the README says to save it: imports are resolved from there.
  const script = fileURLToPath(new URL(`example-${process.pid}.mjs`, root));
  try {
    writeFileSync(script, example);
    const { stdout } = await promisify(execFile)(
      process.execPath,
      ["--conditions=rowhouse-source", "--import", "tsx", script],
      { env: { ...process.env, ...environment } },
    );
    return { printed: stdout, promised };
  } finally {
    rmSync(script, { force: true });
  }
}
