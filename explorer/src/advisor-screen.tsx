import { useSignal } from "@preact/signals";
import type { Finding } from "@rowhouse/server/insight/advice/rule";
import { useEffect } from "preact/hooks";
import {
  adviseOn,
  costAfter,
  drawnLayout,
  type LookedAt,
  type Sample,
  severityOf,
} from "./advice.ts";
import { codeOf } from "./advice-code.ts";
import { copyText } from "./copy-text.ts";
import type { Row } from "./entities.ts";
import { Failure } from "./failure.tsx";
import { clockTime } from "./heat-data.ts";
import { triedAs } from "./playground/pattern-map.ts";
import { screenAddress } from "./route-text.ts";
import { insight, ServerError, session, wire } from "./session.ts";
import { readSketch } from "./table-facts.ts";
import { count, counted } from "./text.ts";

/** What the recent traffic shows about the design of tables: `rowhouse advise`, worked through in the page. */
export function AdvisorScreen() {
  const looked = useSignal<LookedAt | undefined>(undefined);
  const failure = useSignal<ServerError | undefined>(undefined);
  const isBusy = useSignal(false);
  const look = async () => {
    isBusy.value = true;
    try {
      const text = await (await insight("recordings")).text();
      looked.value = await adviseOn(text, session.value?.account ?? "", sampleOf);
      failure.value = undefined;
    } catch (error) {
      if (!(error instanceof ServerError)) throw error;
      failure.value = error;
    }
    isBusy.value = false;
  };
  useEffect(() => {
    look();
  }, []);
  const { advice, since, samples } = looked.value ?? {};
  return (
    <section class="insight" aria-labelledby="advisor-title">
      <div class="insight-head">
        <h1 id="advisor-title">Advisor</h1>
        {advice && (
          <span role="status">
            {counted(advice.findings.length, "finding")} in {counted(advice.events, "operation")}
            {since !== undefined && ` since ${clockTime(since)}`}
          </span>
        )}
        <span class="space" />
        <button type="button" disabled={isBusy.value} onClick={look}>
          {isBusy.value ? "Looking…" : "Look again"}
        </button>
      </div>
      {failure.value && <Failure error={failure.value} again={look} />}
      {advice && (
        <>
          {advice.events === 0 && (
            <div class="empty">
              <p>
                <strong>No traffic yet.</strong> Run the application or its tests against this
                server, then look again. The last operations are kept in memory, up to 4 MB of them
                for an account.
              </p>
            </div>
          )}
          {advice.findings
            .toSorted((a, b) => RANKS.indexOf(severityOf(a)) - RANKS.indexOf(severityOf(b)))
            .map((finding) => (
              <Found
                key={`${finding.rule} ${finding.table} ${finding.subject}`}
                finding={finding}
                rows={samples?.get(nameOf(finding)) ?? []}
              />
            ))}
          <details class="twin" open={advice.findings.length === 0 && advice.events > 0}>
            <summary>What was checked</summary>
            <table>
              <tbody>
                {advice.lines.map(({ question, verdict, note }) => (
                  <tr key={question}>
                    <th scope="row">{question}</th>
                    <td>
                      {verdict}
                      {note && <span class="quiet"> ({note})</span>}
                    </td>
                  </tr>
                ))}
              </tbody>
            </table>
          </details>
        </>
      )}
    </section>
  );
}

const RANKS = ["high", "medium", "low"];
const SIGNS = { high: "▲", medium: "◆", low: "●" } as const;
const TONES = { high: "dear", medium: "fair", low: "cheap" } as const;

function nameOf({ table }: Finding): string {
  return table.slice(table.indexOf("/") + 1);
}

function Found({ finding, rows }: { finding: Finding; rows: readonly Row[] }) {
  const { table, title, evidence, cost, remedy } = finding;
  const severity = severityOf(finding);
  const layouts = remedy.layout.map((line) => ({ line, drawn: drawnLayout(line) }));
  const code = codeOf(finding, rows);
  const after = costAfter(finding);
  const isOfTable = table.includes("/");
  const tried = triedAs(remedy.pattern);
  return (
    <article class="finding">
      <h2>
        <span class={`badge ${TONES[severity]}`}>
          <span aria-hidden="true">{SIGNS[severity]}</span> {severity}
        </span>
        {isOfTable ? nameOf(finding) : table}: {title}
      </h2>
      <ul aria-label="Evidence">
        {evidence.map((each) => (
          <li key={each}>{each}</li>
        ))}
      </ul>
      {isOfTable && (
        <p>
          <a href={screenAddress("activity", nameOf(finding))}>Queries</a> ·{" "}
          <a href={screenAddress("heat", nameOf(finding))}>Heat map</a>
        </p>
      )}
      <div class="pair">
        <div>
          <p class="layout-title">now</p>
          {isOfTable && rows.length > 0 && <Keys table={nameOf(finding)} rows={rows.slice(0, 3)} />}
          <p>{cost}</p>
        </div>
        <div class="layout">
          <p class="layout-title">proposed: {remedy.pattern}</p>
          {layouts.map(({ line, drawn }) =>
            drawn ? (
              <Keys
                key={line}
                table={drawn.table}
                rows={[{ partitionKey: drawn.partitionKey, rowKey: drawn.rowKey }]}
              />
            ) : (
              <p key={line}>
                <code>{line}</code>
              </p>
            ),
          )}
          <p>{remedy.advice}</p>
          {after && <p>{after}</p>}
          {tried && (
            <p>
              <a href={screenAddress("playground", tried)}>Try it in the playground</a>
            </p>
          )}
        </div>
      </div>
      {remedy.kept && (
        <Code title="For unchanged clients, an index that the server keeps" code={remedy.kept} />
      )}
      {code && <Code title="With the pattern library" code={code} />}
    </article>
  );
}

/** Keys as a table has them, or would. */
function Keys({
  table,
  rows,
}: {
  table: string;
  rows: readonly Pick<Row, "partitionKey" | "rowKey">[];
}) {
  return (
    <table>
      <caption class="hidden">Keys of {table}</caption>
      <thead>
        <tr>
          <th scope="col">{table} · PartitionKey</th>
          <th scope="col">RowKey</th>
        </tr>
      </thead>
      <tbody>
        {rows.map(({ partitionKey, rowKey }) => (
          <tr key={`${partitionKey} ${rowKey}`}>
            <td class="mono">{partitionKey}</td>
            <td class="mono">{rowKey}</td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}

function Code({ title, code }: { title: string; code: string }) {
  const isCopied = useSignal(false);
  return (
    <details>
      <summary>{title}</summary>
      <pre>{code}</pre>
      <button
        type="button"
        onClick={async () => {
          await copyText(code);
          isCopied.value = true;
        }}
      >
        {isCopied.value ? "Copied" : "Copy"}
      </button>
    </details>
  );
}

const SAMPLES = 200;

/** A table that cannot be read, or is gone, is advised on without its data. */
export async function sampleOf(table: string): Promise<Sample | undefined> {
  try {
    const { entities, bytes, partitions, largest, complete } = await readSketch(table);
    if (entities === 0) return undefined;
    const headers = { "x-rowhouse-cell-max": "64" };
    const answer = await wire({ path: `/${table}()`, query: { $top: count(SAMPLES) }, headers });
    const onlyPartition = complete && partitions === 1 ? largest?.partitionKey : undefined;
    return { entities, bytes, onlyPartition, json: await answer.text() };
  } catch (error) {
    if (error instanceof ServerError) return undefined;
    throw error;
  }
}
