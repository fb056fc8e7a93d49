import type { Command } from "commander";

/** `rowhouse engine install|check|explain`, for operators of a PostgreSQL engine. */
export function addEngineCommand(program: Command): void {
  const engine = program
    .command("engine")
    .description("prepare and check a PostgreSQL database for serve --engine");
  engine
    .command("install")
    .description("create the table in the database, and print the statements")
    .argument(...DATABASE)
    .option("--dry-run", "only print the statements")
    .action(async (given: string | undefined, { dryRun }: { dryRun?: true }) => {
      const url = urlOf(given);
      const { installPostgres } = await import("@rowhouse/server/engine/postgres/administer");
      const report = await installPostgres({ url, apply: !dryRun });
      for (const statement of report.sql) print(statement);
      print("-- For a role with only the rights that Rowhouse needs, run as the table's owner:");
      for (const statement of report.roleSql) print(`-- ${statement}`);
      print(`-- ${dryRun ? "not applied to" : "applied to"} ${report.database} (${report.server})`);
    });

  engine
    .command("check")
    .description(
      "verify schema, rights, durability and settings; exits with 1 if there is a problem",
    )
    .argument(...DATABASE)
    .action(async (given: string | undefined) => {
      const url = urlOf(given);
      const { checkPostgres } = await import("@rowhouse/server/engine/postgres/check");
      const findings = await checkPostgres({ url });
      for (const { level, topic, text } of findings) print(`${level.padEnd(8)} ${topic}: ${text}`);
      if (findings.some(({ level }) => level === "problem")) process.exitCode = 1;
    });

  engine
    .command("explain")
    .description(
      "show how the database executes each statement; exits with 1 if a plan is not as expected",
    )
    .argument(...DATABASE)
    .action(async (given: string | undefined) => {
      const url = urlOf(given);
      const { explainPostgres } = await import("@rowhouse/server/engine/postgres/explain");
      for (const { statement, sql, plan, problems } of await explainPostgres({ url })) {
        print(`${statement}: ${sql}`);
        for (const line of plan) print(`    ${line}`);
        for (const problem of problems) print(`  problem: ${problem}`);
        if (problems.length > 0) process.exitCode = 1;
      }
    });
}

const DATABASE = ["[url]", "postgres://USER@HOST:PORT/DATABASE; default: ROWHOUSE_ENGINE"] as const;

function urlOf(given: string | undefined): string {
  const url = given ?? process.env.ROWHOUSE_ENGINE;
  if (url) return url;
  throw new Error(
    "No database is named: pass postgres://USER@HOST:PORT/DATABASE, or set ROWHOUSE_ENGINE.",
  );
}

function print(line: string): void {
  process.stdout.write(`${line}\n`);
}
