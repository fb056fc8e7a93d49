/** All of editing, which is loaded when somebody first edits. */
export { BulkDialog } from "./bulk-dialog.tsx";
export { EntityEditor } from "./entity-editor.tsx";
export { SaveDialog } from "./save-dialog.tsx";
export { stageDeletes } from "./stage-deletes.ts";
