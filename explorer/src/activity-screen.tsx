import type { ActivityReport, ActivitySlot } from "@rowhouse/server/insight/activity";
import type { NotableQuery } from "@rowhouse/server/insight/notable-queries";
import {
  milliseconds,
  pathOf,
  quantileOf,
  type Series,
  seriesOf,
  totalOf,
} from "./activity-data.ts";
import { Failure } from "./failure.tsx";
import { clockTime, rounded } from "./heat-data.ts";
import { useInsight } from "./insight-loader.ts";
import { SPANS, spanOf } from "./insight-spans.ts";
import { route } from "./route.ts";
import { addressOf, screenAddress } from "./route-text.ts";
import { age, count, percent } from "./text.ts";

/** What the account's clients do: rates, durations, what queries read, and which cost most. */
export function ActivityScreen() {
  const { value, failure, again } = useInsight<ActivityReport>("activity");
  const { subject: table, view } = route.value;
  const spanMs = spanOf(view.span);
  const to = Date.now();
  const from = Math.max(to - spanMs, value ? value.since - 10_000 : 0);
  const slots = (value?.slots ?? []).filter((slot) => slot.end > from);
  const total = totalOf(slots);
  const show = (span: string, of = table) => {
    location.hash = screenAddress("activity", of, { ...view, span });
  };
  return (
    <section class="insight" aria-labelledby="activity-title">
      <div class="insight-head">
        <h1 id="activity-title">Activity</h1>
        <label class="inline">
          Last
          <select
            value={SPANS.find(([, ms]) => ms === spanMs)?.[0]}
            onChange={(event) => show(event.currentTarget.value)}
          >
            {SPANS.map(([name]) => (
              <option key={name}>{name}</option>
            ))}
          </select>
        </label>
        {value && <span class="quiet small">watched since {clockTime(value.since)}</span>}
      </div>
      {failure && <Failure error={failure} again={again} />}
      {value && !total && (
        <div class="empty">
          <p>
            <strong>No requests yet.</strong> Send some, and look again: this page counts every
            request to the account, its own too.
          </p>
        </div>
      )}
      {value && total && (
        <>
          <Charts slots={slots} total={total} from={from} to={to} />
          <div class="pair">
            <Counts title="Operations" of="requests" counts={total.operations} />
            <Counts
              title="Refusals"
              of="requests"
              counts={total.errors}
              none="None: every request was answered as asked."
            />
          </div>
          {table !== "" && (
            <p class="notice">
              Queries of {table} only.{" "}
              <a href={screenAddress("activity", "", view)}>Those of all tables</a>
            </p>
          )}
          <Queries
            title="Slowest queries of the last hour"
            queries={value.slowest.filter((query) => table === "" || query.table === table)}
          />
          <Queries
            title="Widest queries of the last hour"
            queries={value.widest.filter((query) => table === "" || query.table === table)}
          />
        </>
      )}
    </section>
  );
}

function Charts({
  slots,
  total,
  from,
  to,
}: {
  slots: readonly ActivitySlot[];
  total: ActivitySlot;
  from: number;
  to: number;
}) {
  const time = { from, to };
  const share = total.entitiesRead === 0 ? undefined : total.entitiesReturned / total.entitiesRead;
  return (
    <div class="charts">
      <Chart
        {...time}
        title="Requests a second"
        fact={`${count(total.requests)} in all`}
        print={rounded}
        series={[seriesOf("requests", slots, ({ requests }, seconds) => requests / seconds)]}
      />
      <Chart
        {...time}
        title="Answered within"
        fact={`p50 ${milliseconds(quantileOf(total, 0.5))}, p99 ${milliseconds(quantileOf(total, 0.99))}`}
        print={milliseconds}
        series={[
          seriesOf("p50", slots, (slot) => quantileOf(slot, 0.5)),
          seriesOf("p99", slots, (slot) => quantileOf(slot, 0.99)),
        ]}
      />
      <Chart
        {...time}
        title="Rows read for each row returned"
        fact={
          share === undefined
            ? "no queries"
            : `${percent(share)} of ${count(total.entitiesRead)} rows read were returned`
        }
        print={rounded}
        series={[
          seriesOf("read", slots, ({ entitiesRead, entitiesReturned }) =>
            entitiesRead === 0 ? undefined : entitiesRead / Math.max(1, entitiesReturned),
          ),
        ]}
      />
      <Chart
        {...time}
        title="Entities a second"
        fact={`${count(total.entitiesRead)} read, ${count(total.entitiesWritten)} written`}
        print={rounded}
        series={[
          seriesOf("read", slots, ({ entitiesRead }, seconds) => entitiesRead / seconds),
          seriesOf("written", slots, ({ entitiesWritten }, seconds) => entitiesWritten / seconds),
        ]}
      />
      <Chart
        {...time}
        title="Commits for each flush, of the whole server"
        fact={
          total.flushes === 0
            ? "nothing flushed, or the engine does not say"
            : `${rounded(total.commits / total.flushes)} on average, ${count(total.flushes)} flushes`
        }
        print={rounded}
        series={[
          seriesOf("commits", slots, ({ commits, flushes }) =>
            flushes === 0 ? undefined : commits / flushes,
          ),
        ]}
      />
    </div>
  );
}

/** One or two values over time. The fact beside the title says the same in words. */
function Chart({
  title,
  fact,
  series,
  from,
  to,
  print,
}: {
  title: string;
  fact: string;
  series: readonly Series[];
  from: number;
  to: number;
  print: (value: number) => string;
}) {
  const most = Math.max(0, ...series.flatMap(({ steps }) => steps.map(({ value }) => value)));
  return (
    <figure class="chart">
      <figcaption>
        <strong>{title}</strong> <span class="quiet small">{fact}</span>
      </figcaption>
      <div class="chart-box">
        <svg
          viewBox="0 0 1000 100"
          preserveAspectRatio="none"
          role="img"
          aria-label={`${title}: at most ${print(most)}; ${fact}`}
        >
          {series.map(({ name, steps }, i) => (
            <path key={name} class={`line-${i}`} d={pathOf(steps, from, to, most || 1)} />
          ))}
        </svg>
        <span class="chart-most small quiet">{print(most)}</span>
      </div>
      <div class="chart-axis small quiet">
        <span>{clockTime(from)}</span>
        {series.length > 1 && (
          <span>
            {series.map(({ name }, i) => (
              <span key={name} class={`legend legend-${i}`}>
                {name}
              </span>
            ))}
          </span>
        )}
        <span>{clockTime(to)}</span>
      </div>
    </figure>
  );
}

function Counts({
  title,
  of,
  counts,
  none,
}: {
  title: string;
  of: string;
  counts: Readonly<Record<string, number>>;
  none?: string;
}) {
  const rows = Object.entries(counts).sort((a, b) => b[1] - a[1]);
  return (
    <div>
      <h2>{title}</h2>
      {rows.length === 0 && <p class="quiet">{none}</p>}
      <table>
        <tbody>
          {rows.map(([name, value]) => (
            <tr key={name}>
              <th scope="row">{name || "not an operation"}</th>
              <td class="number">
                {count(value)} <span class="hidden">{of}</span>
              </td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

function Queries({ title, queries }: { title: string; queries: readonly NotableQuery[] }) {
  const now = Date.now();
  return (
    <div>
      <h2>{title}</h2>
      {queries.length === 0 ? (
        <p class="quiet">None.</p>
      ) : (
        <table>
          <thead>
            <tr>
              <th scope="col">query</th>
              <th scope="col">plan</th>
              <th scope="col" class="number">
                time of a page
              </th>
              <th scope="col" class="number">
                read
              </th>
              <th scope="col" class="number">
                returned
              </th>
              <th scope="col">when</th>
            </tr>
          </thead>
          <tbody>
            {queries.map((query) => (
              <tr key={`${query.table} ${query.class} ${query.shape}`}>
                <th scope="row">
                  <a
                    href={addressOf({ table: query.table, filter: query.filter, explains: true })}
                    title={query.filter}
                  >
                    {query.table}: {query.shape || "no filter"}
                  </a>
                </th>
                <td>{query.class}</td>
                <td class="number">{milliseconds(query.engineMicros / 1000)}</td>
                <td class="number">{count(query.entitiesRead)}</td>
                <td class="number">{count(query.entitiesReturned)}</td>
                <td>{age(query.at, now)}</td>
              </tr>
            ))}
          </tbody>
        </table>
      )}
    </div>
  );
}
