// Builds the page into one module, dist/assets.js, which the server imports when somebody opens it: so the page travels
// wherever the server is bundled to. In plain JavaScript, because nothing is compiled yet.
import { existsSync, mkdirSync, readdirSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { extname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { gzipSync } from "node:zlib";

const root = fileURLToPath(new URL("..", import.meta.url));
const own = join(root, "explorer");
const target = join(own, "dist/assets.js");
const SOURCES = [
  "explorer/src",
  "explorer/build.mjs",
  "protocol/src",
  "patterns/src",
  "server/src/query",
  "server/src/insight",
];
const TYPES = {
  ".css": "text/css; charset=utf-8",
  ".html": "text/html; charset=utf-8",
  ".js": "text/javascript; charset=utf-8",
};

/** Whether nothing that goes into the page is newer than it. */
function isFresh() {
  if (!existsSync(target)) return false;
  const built = statSync(target).mtimeMs;
  const files = [...SOURCES, "package-lock.json"].flatMap((path) => {
    const full = join(root, path);
    if (!statSync(full).isDirectory()) return [full];
    const names = readdirSync(full, { recursive: true, encoding: "utf8" });
    return names.map((name) => join(full, name));
  });
  return files.every((file) => statSync(file).mtimeMs < built);
}

/** `import text from "code:./file.ts"`: the part of a file that is shown, with what it imports of the library. */
const shownCode = {
  name: "shown code",
  setup({ onResolve, onLoad }) {
    onResolve({ filter: /^code:/ }, ({ path, resolveDir }) => {
      return { path: join(resolveDir, path.slice("code:".length)), namespace: "code" };
    });
    onLoad({ filter: /./, namespace: "code" }, ({ path }) => {
      const text = readFileSync(path, "utf8");
      const imports = text.match(/^import [^;]* from "@rowhouse\/patterns[^"]*";$/gm) ?? [];
      const [, shown] = /\/\/ What is shown:\n(.*)\/\/ Until here\./s.exec(text);
      return { contents: [...imports, "", shown].join("\n"), loader: "text" };
    });
  },
};

async function buildAssets() {
  const { build } = await import("esbuild");
  const { outputFiles, metafile } = await build({
    absWorkingDir: root,
    entryPoints: { explorer: "explorer/src/main.tsx" },
    outdir: "explorer/dist",
    entryNames: "[name]-[hash]",
    chunkNames: "[name]-[hash]",
    bundle: true,
    splitting: true,
    minify: true,
    format: "esm",
    target: "es2023",
    jsx: "automatic",
    jsxImportSource: "preact",
    conditions: ["rowhouse-source"],
    plugins: [shownCode],
    legalComments: "none",
    logLevel: "warning",
    metafile: true,
    write: false,
  });
  const files = new Map(
    outputFiles.map(({ path, contents }) => [path.replace(/^.*[\\/]/, ""), contents]),
  );
  // Screens are chunks of their own, which the page loads when they are first shown.
  const named = (type) =>
    [...files.keys()].find((name) => name.startsWith("explorer-") && extname(name) === type);
  const html = readFileSync(join(own, "src/index.html"), "utf8")
    .replace("explorer.css", `assets/${named(".css")}`)
    .replace("explorer.js", `assets/${named(".js")}`);
  files.set("index.html", Buffer.from(html));
  const entries = [...files].map(([name, bytes]) => {
    const gzip = gzipSync(bytes, { level: 9 }).toString("base64");
    return `  [${JSON.stringify(name)}, ${JSON.stringify(TYPES[extname(name)])}, "${gzip}"],\n`;
  });
  const included = Object.keys(metafile.inputs).map(
    (path) => /node_modules\/((?:@[^/]+\/)?[^/]+)/.exec(path)?.[1],
  );
  const packages = [...new Set(included.filter((name) => name !== undefined))].sort();
  const fileNamed = (path) => path.replace(/^.*\//, "");
  const [entry] = Object.entries(metafile.outputs).find(([, { entryPoint }]) =>
    entryPoint?.endsWith("main.tsx"),
  );
  const first = [
    "index.html",
    named(".css"),
    ...loadedWith(entry, metafile.outputs).map(fileNamed),
  ];
  mkdirSync(join(own, "dist"), { recursive: true });
  writeFileSync(
    target,
    `export const assets = new Map([\n${entries.join("")}].map(([name, type, gzip]) => [name, { type, gzip: Buffer.from(gzip, "base64") }]));\n` +
      `/** The packages of others that are included. */\nexport const packages = ${JSON.stringify(packages)};\n` +
      `/** The files that are loaded before anything is shown. */\nexport const first = ${JSON.stringify(first)};\n`,
  );
}

/** An output, and those that it imports at once. */
function loadedWith(path, outputs, found = new Set()) {
  if (found.has(path)) return [...found];
  found.add(path);
  for (const { path: other, kind } of outputs[path].imports)
    if (kind === "import-statement") loadedWith(other, outputs, found);
  return [...found];
}

if (!isFresh()) await buildAssets();
