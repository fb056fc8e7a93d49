/** Something to be said of definitions: an error must not be deployed, a warning should be thought about. */
export interface Finding {
  /** Stable, for those who look for one. */
  readonly id: string;
  readonly level: "error" | "warning";
  /** `Employee.email`. */
  readonly where: string;
  readonly message: string;
  /** One line. */
  readonly fix: string;
}

export function describeFinding({ id, level, where, message, fix }: Finding): string {
  return `${level}  ${where}: ${message} [${id}]\n  Fix: ${fix}`;
}
