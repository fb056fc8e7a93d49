/** What would make a query cheap, or a design right, both here and on the cloud's Table service. */
export interface Remedy {
  /** Name of the published pattern. */
  readonly pattern: string;
  /** One sentence: what to do. */
  readonly advice: string;
  /** Keys written out for this table; empty when no key changes. */
  readonly layout: readonly string[];
  /**
   * The command that makes this server keep an index instead; absent where none would help. The design above works in the
   * cloud too; an index that the server keeps has to be detached, as a table, before it can move there.
   */
  readonly kept?: string | undefined;
}
