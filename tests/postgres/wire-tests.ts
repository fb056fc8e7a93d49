import { spawn } from "node:child_process";
import { readdirSync, readFileSync } from "node:fs";
import { basename, join } from "node:path";
import { fileURLToPath } from "node:url";
import { LocalServer } from "@rowhouse/server/engine/postgres/test-server";

const folder = fileURLToPath(new URL("../wire", import.meta.url));

export function wireTest(name: string): string {
  return join(folder, `${name}.test.ts`);
}

/** Every wire test. */
export function wireTests(): readonly string[] {
  return readdirSync(folder)
    .filter((name) => name.endsWith(".test.ts"))
    .map((name) => join(folder, name));
}

/** The wire tests of tables that use the server in `TARGET`. */
export function targetTests(): readonly string[] {
  return wireTests().filter((file) => readFileSync(file, "utf8").includes("WireTarget.open"));
}

/**
 * Runs tests whose servers store everything in PostgreSQL: in the one that `POSTGRES_URL` names, else in one
 * that they share.
 */
export async function overPostgres<Result>(
  run: (settings: Readonly<Record<string, string>>) => Promise<Result>,
): Promise<Result> {
  const database = process.env.POSTGRES_URL === undefined ? await LocalServer.create() : undefined;
  try {
    // These tests do not depend on durability.
    database?.configure({ fsync: "off" });
    await database?.start();
    const server = database ? { POSTGRES_URL: database.url() } : {};
    return await run({ TEST_ENGINE: "postgres", ...server });
  } finally {
    await database?.remove();
  }
}

export interface TestRun {
  readonly code: number | null;
  readonly output: string;
}

/** The output of the failed tests. */
export function failuresOf({ output }: TestRun): string {
  const lines = output.split("\n");
  const failures = lines.flatMap((line, at) =>
    /^\s*not ok /.test(line) ? lines.slice(at, at + 20) : [],
  );
  return failures.slice(0, 100).join("\n");
}

/**
 * For long runs: each file in a process of its own, two at a time, with a line for each as it ends and the failures of
 * each that fails.
 * @returns whether all passed
 */
export async function runEach(
  files: readonly string[],
  settings: Readonly<Record<string, string>>,
): Promise<boolean> {
  const waiting = [...files];
  const failed: string[] = [];
  const runner = async () => {
    for (let file = waiting.shift(); file !== undefined; file = waiting.shift()) {
      const startedAt = performance.now();
      const run = await runTests([file], settings);
      const seconds = ((performance.now() - startedAt) / 1000).toFixed();
      const passed = /^# pass (\d+)$/m.exec(run.output)?.[1] ?? "0";
      // A file without a test that ran has shown nothing.
      const isPassed = run.code === 0 && passed !== "0";
      console.log(
        `${isPassed ? "ok" : "not ok"} ${basename(file)}: ${passed} passed, ${seconds} s`,
      );
      if (isPassed) continue;
      failed.push(basename(file));
      console.log(failuresOf(run) || run.output.slice(-2_000));
    }
  };
  await Promise.all([runner(), runner()]);
  const failures = failed.length > 0 ? `, not: ${failed.join(", ")}` : "";
  console.log(`${files.length - failed.length} of ${files.length} files passed${failures}`);
  return failed.length === 0;
}

export async function runTests(
  files: readonly string[],
  settings: Readonly<Record<string, string>>,
): Promise<TestRun> {
  const { NODE_TEST_CONTEXT: _, ...environment } = process.env;
  const sources = ["--conditions=rowhouse-source", "--import", "tsx"];
  const runner = spawn(
    process.execPath,
    [...sources, "--test", "--test-reporter=tap", "--test-concurrency=2", ...files],
    { stdio: ["ignore", "pipe", "inherit"], env: { ...environment, ...settings } },
  );
  const exited = new Promise<number | null>((resolve) => runner.once("exit", resolve));
  let output = "";
  for await (const chunk of runner.stdout.setEncoding("utf8")) output += chunk;
  return { code: await exited, output };
}
