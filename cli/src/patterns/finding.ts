/** A finding about definitions. One with an error must not be deployed; a warning deserves a look. */
export interface Finding {
  /** Stable, so that scripts can search for it. */
  readonly id: string;
  readonly level: "error" | "warning";
  /** Such as `Employee.email`. */
  readonly where: string;
  readonly message: string;
  /** One line. */
  readonly remedy: string;
}

export function describeFinding({ id, level, where, message, remedy }: Finding): string {
  return `${level}  ${where}: ${message} [${id}]\n  Remedy: ${remedy}`;
}
