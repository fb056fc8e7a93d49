import { useSignal, useSignalEffect } from "@preact/signals";
import { useEffect, useMemo } from "preact/hooks";
import type { Row } from "./entities.ts";
import { EntityPane } from "./entity-pane.tsx";
import { Failure } from "./failure.tsx";
import { fileToImport } from "./file-to-import.ts";
import { FilterBar } from "./filter-bar.tsx";
import { Grid } from "./grid.tsx";
import { GridFoot, GridTools } from "./grid-tools.tsx";
import { useCommand } from "./keys.tsx";
import { PlanLine } from "./plan-line.tsx";
import { replace, route } from "./route.ts";
import { partIsMissing, ServerError, session } from "./session.ts";
import { type Changes, hasStaged, idOfDrawn } from "./staged.ts";
import { TableView } from "./table-view.ts";
import { age, bytes, count, counted } from "./text.ts";
import { useLater } from "./use-later.ts";

const loadEditing = () => import("./editing/editing.ts");
const loadMoving = () => import("./moving/moving.ts");
const loadExplain = () => import("./explain-panel.tsx");

interface Opened {
  /** Of what is staged for it, now or later. */
  readonly id: string;
  readonly row: Row;
}

export function TableScreen({ table }: { table: string }) {
  const view = useMemo(() => new TableView(table, route.peek().filter), [table]);
  const opened = useSignal<Opened | undefined>(undefined);
  const dialog = useSignal<"save" | "undo" | "bulk" | "export" | "import" | undefined>(
    fileToImport.peek() && "import",
  );
  const refused = useSignal<ServerError | undefined>(undefined);
  const { edits } = view;
  const { isReadOnly, permissions = "aud" } = session.value!;
  const mayEdit = !isReadOnly && /[audw]/.test(permissions);
  useEffect(() => {
    const warn = (event: BeforeUnloadEvent) => {
      if (hasStaged()) event.preventDefault();
    };
    addEventListener("beforeunload", warn);
    return () => removeEventListener("beforeunload", warn);
  }, []);
  useEffect(() => {
    view.open();
    return () => view.close();
  }, [view]);
  // The address follows what was run, and a step back in the browser's history is followed.
  useSignalEffect(() => {
    const filter = view.ranFilter.value;
    const { table: named, explains } = route.peek();
    if (filter !== undefined && named === table) replace({ table, filter, explains });
  });
  useSignalEffect(() => {
    const { filter, table: named } = route.value;
    if (named !== table || filter === view.ranFilter.peek() || view.ranFilter.peek() === undefined)
      return;
    view.filter.value = filter;
    view.run();
  });
  const { explains } = route.value;
  const close = () => {
    dialog.value = undefined;
  };
  const toggleExplain = () =>
    replace({ table, filter: view.ranFilter.value ?? "", explains: !explains });
  useCommand("explain", toggleExplain);
  useCommand("run", () => view.run());
  useCommand("stop", () => {
    if (opened.value) opened.value = undefined;
    else view.stop();
  });
  const save = () => {
    if (edits.changes.value.size > 0) dialog.value = "save";
  };
  const undo = () => {
    if (edits.changes.value.size > 0) edits.unstageLast();
    else if (edits.saves.value.length > 0) dialog.value = "undo";
  };
  const add = () => {
    const like = view.rows.value[0];
    const row = { partitionKey: like?.partitionKey ?? "", rowKey: "", cells: new Map() };
    opened.value = { id: edits.stageInsert(row), row };
  };
  const remove = async (rows: readonly Row[]) => {
    const known: Changes = edits.changes.value;
    const saved = rows.filter((row) => known.get(idOfDrawn(row, known))?.kind !== "insert");
    for (const row of rows) if (!saved.includes(row)) edits.stage(idOfDrawn(row, known), undefined);
    try {
      const editing = await loadEditing().catch(() => {
        throw partIsMissing();
      });
      await editing.stageDeletes(table, edits, saved);
      refused.value = undefined;
    } catch (error) {
      if (!(error instanceof ServerError)) throw error;
      refused.value = error;
    }
  };
  useCommand("save", save);
  useCommand("undo", undo);
  useCommand("key n", () => mayEdit && add());
  return (
    <div class="table-screen">
      <TableHead
        view={view}
        mayImport={mayEdit}
        move={(which) => {
          dialog.value = which;
        }}
      />
      <FilterBar view={view} />
      <PlanLine view={view} explains={explains} toggleExplain={toggleExplain} />
      {explains && <Explain view={view} />}
      <div class="results">
        <div class="rows">
          <GridTools
            view={view}
            add={mayEdit ? add : undefined}
            changeAll={() => {
              dialog.value = "bulk";
            }}
          />
          {refused.value && <Failure error={refused.value} />}
          <Results
            importFile={
              mayEdit
                ? () => {
                    dialog.value = "import";
                  }
                : undefined
            }
            view={view}
            open={(row) => {
              opened.value = { id: idOfDrawn(row, edits.changes.value), row };
            }}
            remove={mayEdit ? remove : undefined}
          />
          <GridFoot view={view} save={save} undo={undo} />
        </div>
        {opened.value && !mayEdit && (
          <EntityPane
            table={table}
            row={opened.value.row}
            close={() => {
              opened.value = undefined;
            }}
          />
        )}
        {opened.value && mayEdit && (
          <Editor
            key={opened.value.id}
            view={view}
            opened={opened.value}
            open={(next) => {
              opened.value = next;
            }}
          />
        )}
      </div>
      {dialog.value === "export" || dialog.value === "import" ? (
        <MoveDialog view={view} which={dialog.value} close={close} />
      ) : (
        dialog.value && (
          <EditDialog
            view={view}
            which={dialog.value}
            open={(next) => {
              opened.value = next;
            }}
            close={close}
          />
        )
      )}
    </div>
  );
}

function Explain({ view }: { view: TableView }) {
  const { loaded, failure } = useLater(loadExplain);
  if (loaded) return <loaded.ExplainPanel view={view} />;
  return <p class="quiet">{failure || "Loading…"}</p>;
}

function Editor({
  view,
  opened,
  open,
}: {
  view: TableView;
  opened: Opened;
  open: (next: Opened | undefined) => void;
}) {
  const { loaded, failure } = useLater(loadEditing);
  if (!loaded)
    return (
      <aside class="entity" aria-label="Entity">
        <p class="quiet">{failure || "Loading…"}</p>
      </aside>
    );
  return (
    <loaded.EntityEditor
      table={view.table}
      edits={view.edits}
      id={opened.id}
      row={opened.row}
      close={() => open(undefined)}
      open={(id, row) => open({ id, row })}
    />
  );
}

function EditDialog({
  view,
  which,
  open,
  close,
}: {
  view: TableView;
  which: "save" | "undo" | "bulk";
  open: (next: Opened) => void;
  close: () => void;
}) {
  const { loaded, failure } = useLater(loadEditing);
  if (!loaded) return <p role="status">{failure || "Loading…"}</p>;
  if (which === "bulk") return <loaded.BulkDialog view={view} close={close} />;
  return (
    <loaded.SaveDialog
      view={view}
      mode={which}
      close={close}
      open={(id, { row }) => open({ id, row })}
    />
  );
}

function MoveDialog({
  view,
  which,
  close,
}: {
  view: TableView;
  which: "export" | "import";
  close: () => void;
}) {
  const { loaded, failure } = useLater(loadMoving);
  if (!loaded) return <p role="status">{failure || "Loading…"}</p>;
  return which === "export" ? (
    <loaded.ExportDialog view={view} close={close} />
  ) : (
    <loaded.ImportDialog view={view} close={close} />
  );
}

function TableHead({
  view,
  mayImport,
  move,
}: {
  view: TableView;
  mayImport: boolean;
  move: (which: "export" | "import") => void;
}) {
  const sketch = view.sketch.value;
  return (
    <div class="page-head">
      <h1>{view.table}</h1>
      {sketch && (
        <span class="quiet">
          {sketch.complete ? "" : "at least "}
          {counted(sketch.entities, "entity", "entities")} ·{" "}
          {counted(sketch.partitions, "partition")} · {bytes(sketch.bytes)}{" "}
          <Counted at={sketch.at} />
        </span>
      )}
      {sketch && (
        <button type="button" class="link" onClick={() => view.refreshSketch()}>
          count again
        </button>
      )}
      {!sketch && view.sketchFailure.value !== "" && (
        <span class="quiet">not counted: {view.sketchFailure.value}</span>
      )}
      <span class="space" />
      {mayImport && (
        <button type="button" onClick={() => move("import")}>
          Import…
        </button>
      )}
      <button type="button" onClick={() => move("export")}>
        Export…
      </button>
    </div>
  );
}

const AGE_MS = 10_000;

function Counted({ at }: { at: number }) {
  const now = useSignal(Date.now());
  useEffect(() => {
    const ticking = setInterval(() => {
      now.value = Date.now();
    }, AGE_MS);
    return () => clearInterval(ticking);
  }, [now]);
  return <>(counted {age(at, now.value)})</>;
}

function Results({
  view,
  importFile,
  open,
  remove,
}: {
  view: TableView;
  /** Undefined for who may not. */
  importFile: (() => void) | undefined;
  open: (row: Row) => void;
  remove: ((rows: readonly Row[]) => void) | undefined;
}) {
  const phase = view.phase.value;
  const failure = view.failure.value;
  const { read } = view.actual.value;
  const adds = [...view.edits.changes.value.values()].some(({ kind }) => kind === "insert");
  if (view.rows.value.length > 0 || adds) {
    return (
      <>
        {failure && <Failure error={failure} again={() => view.goOn()} />}
        <Grid view={view} open={open} remove={remove} />
      </>
    );
  }
  if (failure) return <Failure error={failure} again={() => view.run(true)} />;
  return (
    <div class="empty">
      {phase === "running" && (
        <p class="quiet">Reading… {read > 0 && `${count(read)} read, none match yet`}</p>
      )}
      {phase === "asks" && <p class="quiet">Nothing was read yet: this query scans.</p>}
      {phase === "idle" && <p class="quiet">Run the query to see rows.</p>}
      {phase === "stopped" && (
        <p class="quiet">Stopped. {counted(read, "entity", "entities")} read, none matched.</p>
      )}
      {phase === "budget" && (
        <p class="quiet">
          Stopped after {counted(read, "entity", "entities")}; none matched so far.
        </p>
      )}
      {phase === "end" &&
        (view.ranFilter.value?.trim() ? (
          <NoMatch view={view} />
        ) : (
          <>
            <p class="quiet">The table has no entities.</p>
            {importFile && (
              <button type="button" onClick={importFile}>
                Import a file…
              </button>
            )}
          </>
        ))}
    </div>
  );
}

function NoMatch({ view }: { view: TableView }) {
  const { read } = view.actual.value;
  const plan = view.plan.value;
  return (
    <>
      <h2>No entity matches</h2>
      <p class="quiet">
        {read === 0
          ? plan?.residual
            ? "No entity has such keys: nothing was read, so the rest of the filter was never tested."
            : "No entity has such keys."
          : `${counted(read, "entity", "entities")} had the keys, and failed the rest of the filter.`}
      </p>
      <p class="quiet">
        Values compare with their type: '1984' is not 1984. Names and text are case-sensitive.
      </p>
    </>
  );
}
