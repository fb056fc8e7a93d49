import { writeFileSync } from "node:fs";
import { errorsPage } from "./errors-page.ts";

writeFileSync(new URL("../docs/manual/errors.md", import.meta.url), errorsPage());
