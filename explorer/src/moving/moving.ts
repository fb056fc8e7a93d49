/** Files in and out, which are loaded when somebody first asks for them. */
export { ExportDialog } from "./export-dialog.tsx";
export { ImportDialog } from "./import-dialog.tsx";
