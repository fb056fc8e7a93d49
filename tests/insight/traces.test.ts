import assert from "node:assert/strict";
import { mkdirSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";
import { it } from "node:test";
import { loadTraceApi } from "rowhouse/serve/watch-traces";
import { withFolder } from "../support/rowhouse-process.ts";

const API = `exports.trace = { getTracer: () => ({ startSpan: () => ({ setStatus() {}, end() {} }) }) };`;

it("The tracing API is loaded from the current folder, and only on demand", () =>
  withFolder(async (folder) => {
    const before = process.cwd();
    process.chdir(folder);
    try {
      assert.throws(loadTraceApi, /--otel needs @opentelemetry\/api/);
      const installed = join(folder, "node_modules/@opentelemetry/api");
      mkdirSync(installed, { recursive: true });
      writeFileSync(join(installed, "index.js"), API);
      const { cache } = createRequire(import.meta.url);
      const loaded = () => Object.keys(cache).filter((file) => file.includes("@opentelemetry/api"));
      assert.deepEqual(loaded(), []);
      assert.ok(loadTraceApi().trace.getTracer("rowhouse"));
      assert.equal(loaded().length, 1);
    } finally {
      process.chdir(before);
    }
  }));
