import type { Command } from "commander";

/** `rowhouse engine install|check|explain`: what an operator of a PostgreSQL engine needs. */
export function addEngineCommand(program: Command): void {
  const engine = program
    .command("engine")
    .description("prepare and examine a PostgreSQL database for `serve --engine`");
  const url = "postgres://USER@HOST:PORT/DATABASE";

  engine
    .command("install <url>")
    .description(`create the table in ${url}, and print the statements`)
    .option("--dry-run", "print the statements alone")
    .action(async (url: string, { dryRun }: { dryRun?: true }) => {
      const { installPostgres } = await import("@rowhouse/server/engine/postgres/administer");
      const report = await installPostgres({ url, apply: !dryRun });
      for (const statement of report.sql) print(statement);
      print("-- For a role that may do no more than Rowhouse needs, run by the table's owner:");
      for (const statement of report.roleSql) print(`-- ${statement}`);
      print(`-- ${dryRun ? "not applied to" : "applied to"} ${report.database} (${report.server})`);
    });

  engine
    .command("check <url>")
    .description(
      "verify schema, rights, durability and settings; exit code 1 when there is a problem",
    )
    .action(async (url: string) => {
      const { checkPostgres } = await import("@rowhouse/server/engine/postgres/check");
      const findings = await checkPostgres({ url });
      for (const { level, topic, text } of findings) print(`${level.padEnd(8)} ${topic}: ${text}`);
      if (findings.some(({ level }) => level === "problem")) process.exitCode = 1;
    });

  engine
    .command("explain <url>")
    .description(
      "show how the server runs each statement; exit code 1 when a plan is not as it should be",
    )
    .action(async (url: string) => {
      const { explainPostgres } = await import("@rowhouse/server/engine/postgres/explain");
      for (const { statement, sql, plan, problems } of await explainPostgres({ url })) {
        print(`${statement}: ${sql}`);
        for (const line of plan) print(`    ${line}`);
        for (const problem of problems) print(`  problem: ${problem}`);
        if (problems.length > 0) process.exitCode = 1;
      }
    });
}

function print(line: string): void {
  process.stdout.write(`${line}\n`);
}
