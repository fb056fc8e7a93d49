/** What would make a query cheap, or a design right, both here and on the cloud's Table service. */
export interface Remedy {
  /** Name of the published pattern. */
  readonly pattern: string;
  /** One sentence: what to do. */
  readonly advice: string;
  /** Keys written out for this table; empty when no key changes. */
  readonly layout: readonly string[];
}
