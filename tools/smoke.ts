import { spawn, spawnSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { nodeOf } from "../bench/harness/runtimes.ts";

/*
 * Runs the built server and the README's example on other versions of Node:
 *
 *     npm run smoke              the newest version
 *     npm run smoke -- 22 24     the newest version of each of these lines
 *
 * The runtimes come from the package registry and stay in `.build/runtimes`.
 */
const root = fileURLToPath(new URL("..", import.meta.url));
const versions = process.argv.slice(2);

for (const version of versions.length > 0 ? versions : ["latest"]) await smoke(version);

async function smoke(version: string): Promise<void> {
  const node = nodeOf(version);
  const name = spawnSync(node, ["--version"], { encoding: "utf8" }).stdout.trim();
  const folder = mkdtempSync(join(tmpdir(), "rowhouse-smoke-"));
  const script = join(root, `.smoke-${process.pid}.mjs`);
  const server = spawn(
    node,
    ["cli/dist/main.js", "serve", "--tableOnly", "--tablePort", "0", "--location", folder],
    {
      cwd: root,
      stdio: ["ignore", "pipe", "inherit"],
    },
  );
  const exited = new Promise<number | null>((resolve) => server.once("exit", resolve));
  try {
    const url = await listeningUrl(server.stdout);
    const readme = readFileSync(join(root, "README.md"), "utf8");
    writeFileSync(script, /```js\n(.*?)```/s.exec(readme)?.[1] ?? "");
    const key =
      "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw==";
    const TABLES = `DefaultEndpointsProtocol=http;AccountName=devstoreaccount1;AccountKey=${key};TableEndpoint=${url}/devstoreaccount1`;
    const example = spawn(node, [script], {
      env: { ...process.env, TABLES },
      stdio: ["ignore", "pipe", "inherit"],
    });
    let printed = "";
    for await (const chunk of example.stdout) printed += chunk;
    const expected = /```text\n(.*?)```/s.exec(readme)?.[1];
    if (printed !== expected) throw new Error(`Node ${name}: the example printed\n${printed}`);
  } finally {
    rmSync(script, { force: true });
    server.kill("SIGTERM");
  }
  const code = await exited;
  rmSync(folder, { recursive: true, force: true });
  if (code !== 0) throw new Error(`Node ${name}: the server ended with code ${code}.`);
  console.log(`Node ${name}: serves, answers the README's example, shuts down.`);
}

function listeningUrl(output: NodeJS.ReadableStream): Promise<string> {
  return new Promise((resolve, reject) => {
    const lines = createInterface({ input: output });
    lines.on("close", () => reject(new Error("The server ended before it listened.")));
    lines.on("line", (line) => {
      const found = /Table service is successfully listening at (\S+)/.exec(line);
      if (found) resolve(found[1]!);
    });
  });
}
