import { useSignal } from "@preact/signals";
import { readingOf, remedyOfQuery } from "@rowhouse/server/insight/query-remedy";
import { explain } from "@rowhouse/server/query/explain";
import { explainIndexes } from "@rowhouse/server/query/indexes/index-planner";
import type { Plan } from "@rowhouse/server/query/plan";
import {
  placesOf,
  type ReadEstimate,
  type SketchStep,
  type TableSketch,
} from "@rowhouse/server/query/table-sketch";
import { copyAs, LANGUAGES } from "./copy-as.ts";
import { copyText } from "./copy-text.ts";
import { spent } from "./plan-line.tsx";
import { estimated, roundTrips, type Sign, signOf, stepsOf } from "./plan-words.ts";
import { session } from "./session.ts";
import type { Actual, TableView } from "./table-view.ts";
import { bytes, count, counted, percent } from "./text.ts";

/** A plan that was kept to be compared with. */
interface Kept {
  readonly filter: string;
  readonly plan: Plan;
  readonly estimate: ReadEstimate | undefined;
}

/** How a query is answered, drawn. */
export function ExplainPanel({ view }: { view: TableView }) {
  const kept = useSignal<Kept | undefined>(undefined);
  const plan = view.plan.value;
  const sketch = view.sketch.value;
  if (!plan) return null;
  const estimate = view.estimate.value;
  const indexPlan = view.indexPlan.value;
  const hasRun = view.ranFilter.value === view.filter.value && view.actual.value.requests > 0;
  const now = { filter: view.filter.value, plan, estimate };
  return (
    <section class="explain" aria-label="How this query is answered">
      <div class="explain-plans">
        {kept.value && <Picture title="before" {...kept.value} sketch={sketch} />}
        <Picture
          title={kept.value ? "now" : ""}
          {...now}
          sketch={sketch}
          actual={hasRun ? view.actual.value : undefined}
        />
      </div>
      <div class="explain-words">
        <div>
          <h2>Steps</h2>
          <ol>
            {indexPlan && <li>ask {explainIndexes(indexPlan, "a scan")}</li>}
            {stepsOf(plan).map((step) => (
              <li key={step}>{step}</li>
            ))}
          </ol>
          <p class="quiet">
            {indexPlan
              ? "The index finds the entities; they are tested as if they had been scanned."
              : readingOf(plan)}
          </p>
        </div>
        <Cheaper view={view} plan={plan} />
        <div>
          <h2>Cost</h2>
          <dl>
            <dt>estimated</dt>
            <dd>{estimate ? rangeOf(estimate) : "unknown"}</dd>
            <dt>in the cloud</dt>
            <dd>
              {estimate
                ? `at least ${counted(roundTrips(plan, estimate), "round trip")}`
                : "unknown"}
              ; one partition serves 2,000 entities/s
            </dd>
            <dt>this run</dt>
            <dd>{hasRun ? costOf(view.actual.value) : "not run yet"}</dd>
          </dl>
          <p class="quiet mono">
            {hasRun && view.actual.value.planText ? view.actual.value.planText : explain(plan)}
          </p>
        </div>
      </div>
      <div class="explain-tools">
        <button
          type="button"
          onClick={() => {
            kept.value = kept.value ? undefined : now;
          }}
        >
          {kept.value ? "Stop comparing" : "Keep to compare"}
        </button>
        <span class="space" />
        <Copies view={view} />
      </div>
    </section>
  );
}

function rangeOf({ least, most, likely }: ReadEstimate): string {
  if (most === undefined)
    return `reads at least ${count(least)} entities: the count did not reach the end`;
  if (least === most) return `reads ${counted(likely, "entity", "entities")}`;
  return `reads ${count(least)} to ${counted(most, "entity", "entities")}`;
}

function costOf({
  read,
  returned,
  bytesRead,
  indexEntriesRead,
  requests,
  engineMs,
}: Actual): string {
  const index =
    indexEntriesRead > 0 ? `, ${counted(indexEntriesRead, "index entry", "index entries")}` : "";
  return `${spent(read, returned)}${index} · ${bytes(bytesRead)} · ${counted(requests, "request")} · ${engineMs.toFixed(1)} ms in the engine`;
}

interface PictureProps extends Kept {
  readonly title: string;
  readonly sketch: TableSketch | undefined;
  readonly actual?: Actual | undefined;
}

/** The key space as a strip, its width by entities; what is read in colour; under it, what of that is returned. */
function Picture({ title, filter, plan, estimate, sketch, actual }: PictureProps) {
  const sign = signOf(plan);
  const inPartition = onlyPartition(plan);
  const part =
    sketch && inPartition !== undefined ? sketchOfPartition(sketch, inPartition) : undefined;
  const share = actual && actual.read > 0 ? actual.returned / actual.read : undefined;
  const touched = sketch ? partitionsTouched(plan, sketch) : undefined;
  const words = `${sign.word}: ${estimate ? `reads ${estimated(estimate)}` : "no estimate"}${touched ? ` in ${touched}` : ""}`;
  return (
    <figure class="picture">
      <figcaption>
        {title !== "" && <span class="tag">{title}</span>} <code>{filter || "no filter"}</code>
        <span class="space" />
        <span class={`badge ${sign.tone}`}>
          <span aria-hidden="true">{sign.shape}</span> {sign.word}
        </span>
        <span class="quiet">
          {estimate && `reads ${estimated(estimate)}`}
          {touched && ` in ${touched}`}
        </span>
      </figcaption>
      {sketch && <Strip places={placesOf(plan, sketch)} sign={sign} words={words} />}
      {sketch && <Axis sketch={sketch} nameOf={(step) => step.partitionKey} />}
      {sketch && part && (
        <>
          <p class="part">
            rows of <bdi>{inPartition || "∅"}</bdi>
          </p>
          <Strip places={placesOf(plan, part)} sign={sign} words={`The rows of it that are read`} />
          <Axis sketch={part} nameOf={(step) => step.rowKey} />
        </>
      )}
      {share !== undefined && (
        <div
          class="kept"
          role="img"
          aria-label={`Of ${actual!.read} entities read, ${actual!.returned} were returned.`}
        >
          <i class={`kept-part ${sign.tone}`} style={{ width: `${Math.max(100 * share, 0.3)}%` }} />
          <span>
            {count(actual!.returned)} returned of {count(actual!.read)} read · {percent(share)} kept
          </span>
        </div>
      )}
    </figure>
  );
}

const MARKS_MAX = 400;

function Strip({
  places,
  sign,
  words,
}: {
  places: readonly { readonly from: number; readonly to: number }[];
  sign: Sign;
  words: string;
}) {
  return (
    <div class="strip" role="img" aria-label={words}>
      {places.slice(0, MARKS_MAX).map(({ from, to }, i) => (
        <i
          key={i}
          class={`mark-read ${sign.tone}`}
          style={{
            left: `min(${100 * from}%, 100% - 3px)`,
            width: `max(3px, ${100 * (to - from)}%)`,
          }}
        />
      ))}
    </div>
  );
}

/** The one partition that a plan reads; undefined if it reads several, or none. */
function onlyPartition({ reads }: Plan): string | undefined {
  const keys = new Set<string | undefined>();
  for (const read of reads) {
    const isOfOne = read.class !== "table scan" && read.class !== "partition range";
    keys.add(isOfOne ? (read.kind === "point" ? read : read.start).partitionKey : undefined);
  }
  return keys.size === 1 ? [...keys][0] : undefined;
}

/** The steps within a partition; undefined where the sketch is too coarse to show any. */
function sketchOfPartition(sketch: TableSketch, partitionKey: string): TableSketch | undefined {
  const steps = sketch.steps.filter(
    (step) => step.partitionKey === partitionKey && step.lastPartitionKey === partitionKey,
  );
  const entities = steps.reduce((sum, step) => sum + step.entities, 0);
  return steps.length < 2 ? undefined : { ...sketch, steps, entities };
}

/** In words, as far as it follows from the plan. */
function partitionsTouched(
  { reads, class: planClass }: Plan,
  { complete, partitions }: TableSketch,
): string | undefined {
  if (planClass === "table scan")
    return `${complete ? "" : "at least "}${counted(partitions, "partition")}`;
  if (planClass === "partition range" || planClass === "nothing") return undefined;
  const keys = new Set(
    reads.map((read) => (read.kind === "point" ? read : read.start).partitionKey),
  );
  return counted(keys.size, "partition");
}

/** At most: none is wider than its share. */
const LABELS = 10;

/** Keys under a strip, at the places where they begin. */
function Axis({
  sketch: { steps, entities },
  nameOf,
}: {
  sketch: TableSketch;
  nameOf: (step: SketchStep) => string;
}) {
  const labels: { readonly place: number; readonly name: string }[] = [];
  let before = 0;
  for (const step of steps) {
    const place = before / entities;
    const name = nameOf(step);
    const last = labels.at(-1);
    const isClear = last === undefined || (last.name !== name && place - last.place >= 1 / LABELS);
    if (isClear && place <= 0.95) labels.push({ place, name });
    before += step.entities;
  }
  return (
    <div class="axis" aria-hidden="true">
      {labels.map(({ place, name }) => (
        <span key={name} style={{ left: `${100 * place}%` }}>
          {name || "∅"}
        </span>
      ))}
    </div>
  );
}

function Cheaper({ view, plan }: { view: TableView; plan: Plan }) {
  const remedy = view.indexPlan.value ? undefined : remedyOfQuery(view.table, plan);
  if (!remedy)
    return (
      <div>
        <h2>Cheaper</h2>
        <p>
          Nothing to improve:{" "}
          {view.indexPlan.value ? "an index answers it." : "the keys answer this query."}
        </p>
      </div>
    );
  return (
    <div>
      <h2>Cheaper</h2>
      <p>{remedy.advice}</p>
      {remedy.layout.length > 0 && <pre>{remedy.layout.join("\n")}</pre>}
      <p class="quiet">Pattern: {remedy.pattern}</p>
      {remedy.kept && (
        <>
          <p>Or let the server keep an index:</p>
          <pre>{remedy.kept}</pre>
        </>
      )}
    </div>
  );
}

function Copies({ view }: { view: TableView }) {
  const copied = useSignal("");
  return (
    <span class="copies">
      <span class="quiet">Copy as</span>
      {LANGUAGES.map((language) => (
        <button
          type="button"
          key={language}
          onClick={async () => {
            const { account } = session.value!;
            const { table, filter, columns } = view;
            const query = {
              origin: location.origin,
              account,
              table,
              filter: filter.value.trim(),
              select: columns.projection,
            };
            copied.value = (await copyText(copyAs(language, query)))
              ? `${language} copied`
              : "could not copy";
          }}
        >
          {language}
        </button>
      ))}
      <span role="status" class="quiet">
        {copied.value}
      </span>
    </span>
  );
}
