import { estimated, roundTrips, signOf } from "./plan-words.ts";
import type { TableView } from "./table-view.ts";
import { count, counted, percent } from "./text.ts";

/** What the query in the filter would do, before it is run. */
export function PlanLine({
  view,
  explains,
  toggleExplain,
}: {
  view: TableView;
  explains: boolean;
  toggleExplain: () => void;
}) {
  const plan = view.plan.value;
  const estimate = view.estimate.value;
  const sketch = view.sketch.value;
  const indexPlan = view.indexPlan.value;
  const sign = plan && signOf(plan);
  return (
    <div class="plan-line" aria-live="polite">
      {sign ? (
        <span class={`badge ${indexPlan ? "cheap" : sign.tone}`}>
          <span aria-hidden="true">{indexPlan ? "◈" : sign.shape}</span>{" "}
          {indexPlan ? "Index" : sign.word}
        </span>
      ) : (
        <span class="badge">not a filter yet</span>
      )}
      {indexPlan && (
        <span>
          through {indexPlan.branches.map(({ index }) => index.name).join(" and ")}, instead of a{" "}
          {plan!.class}
        </span>
      )}
      {!indexPlan && estimate && sketch && plan!.reads.length > 0 && (
        <span>
          reads {estimated(estimate)} of {sketch.complete ? "" : "at least "}
          {counted(sketch.entities, "entity", "entities")}
          {plan!.residual ? ", tests each" : ", returns each, page by page"} · in the cloud at least{" "}
          {counted(roundTrips(plan!, estimate), "round trip")}
        </span>
      )}
      {plan?.reads.length === 0 && <span>no entity can match: nothing is read</span>}
      {!sketch && plan && (
        <span class="quiet">no estimate: {view.sketchFailure.value || "counting…"}</span>
      )}
      {view.ranFilter.value !== undefined && view.filter.value !== view.ranFilter.value && (
        <span class="tag">not run yet: the rows below are of the last filter</span>
      )}
      <span class="space" />
      <button type="button" class="link" aria-expanded={explains} onClick={toggleExplain}>
        {explains ? "Hide" : "Explain"} <kbd>e</kbd>
      </button>
    </div>
  );
}

/** The four words: shown, read, estimated, counted. */
export function spent(read: number, returned: number): string {
  if (read === 0) return "nothing read";
  return `${count(read)} read, ${count(returned)} returned (${percent(returned / read)})`;
}
