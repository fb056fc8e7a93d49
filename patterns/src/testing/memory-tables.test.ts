import { testTablesPort } from "../ports/tables-conformance.ts";
import { memory } from "./memory.ts";

testTablesPort({ name: "MemoryTables", open: () => memory().tables });
testTablesPort({
  name: "MemoryTables with short and empty pages",
  open: () => memory({ pageEntitiesMax: 1000, emptyPageShare: 0.3 }).tables,
});
