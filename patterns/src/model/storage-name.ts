import { definitionRefused } from "../errors.ts";

type Names = Readonly<Record<string, string | undefined>>;

/** Why a table cannot have this name. */
export function tableProblems(name: string): string[] {
  return /^(?!tables$)[a-z][a-z0-9]{2,62}$/i.test(name)
    ? []
    : [`has the illegal table name "${name}": 3 to 63 letters and digits, a letter first`];
}

/** @throws invalid-definition. */
export function assertTable(subject: string, name: string): void {
  for (const problem of tableProblems(name)) throw definitionRefused(subject, "table", problem);
}

/** Why queues or containers cannot have these names, one sentence each. The keys say what a name is for. */
export function nameProblems(names: Names): string[] {
  return Object.entries(names).flatMap(([what, name = "none"]) =>
    /^(?=.{3,63}$)[a-z0-9]+(-[a-z0-9]+)*$/.test(name)
      ? []
      : `has the illegal ${what} name "${name}": 3 to 63 lower-case letters, digits and single -`,
  );
}

/** @throws invalid-definition. */
export function assertNames(subject: string, names: Names): void {
  for (const path in names) {
    const [problem] = nameProblems({ [path]: names[path] });
    if (problem) throw definitionRefused(subject, path, problem);
  }
}
