import { useSignal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import {
  type BlobFacts,
  type BlobPage,
  hexOf,
  isText,
  listBlobs,
  listContainers,
  readFacts,
  readRange,
  readWhole,
  textOfBytes,
} from "./blob-data.ts";
import { download } from "./download.ts";
import { Failure } from "./failure.tsx";
import { route } from "./route.ts";
import { screenAddress } from "./route-text.ts";
import { ServerError } from "./session.ts";
import { age, bytes, count, counted } from "./text.ts";
import { useRead } from "./use-read.ts";

/** Containers, the tree of names in one, or a blob. */
export function BlobsScreen() {
  const { subject: container, view } = route.value;
  const { prefix = "", blob } = view;
  if (container === "") return <Containers />;
  return blob === undefined ? (
    <Tree key={`${container} ${prefix}`} container={container} prefix={prefix} />
  ) : (
    <Viewer key={`${container} ${blob}`} container={container} blob={blob} />
  );
}

function Containers() {
  const { value, failure, again } = useRead(listContainers, "");
  return (
    <section class="insight" aria-labelledby="blobs-title">
      <h1 id="blobs-title">Blobs</h1>
      {failure && <Failure error={failure} again={again} />}
      {value?.length === 0 && (
        <div class="empty">
          <p>
            <strong>No containers yet.</strong> Blobs are uploaded by applications and tools; this
            page shows them.
          </p>
        </div>
      )}
      <ul class="tree" aria-label="Containers">
        {value?.map((name) => (
          <li key={name}>
            <a href={screenAddress("blobs", name)}>{name}</a>
          </li>
        ))}
      </ul>
    </section>
  );
}

/** Where a name is: each part of it leads to what begins with it. */
function Path({ container, name }: { container: string; name: string }) {
  const parts = name.split("/").slice(0, -1);
  return (
    <nav class="path" aria-label="Path">
      <a href={screenAddress("blobs")}>containers</a> /{" "}
      <a href={screenAddress("blobs", container)}>{container}</a>
      {parts.map((part, i) => {
        const prefix = `${parts.slice(0, i + 1).join("/")}/`;
        return (
          <span key={prefix}>
            {" / "}
            <a href={screenAddress("blobs", container, { prefix })}>{part || "(empty)"}</a>
          </span>
        );
      })}
    </nav>
  );
}

function Tree({ container, prefix }: { container: string; prefix: string }) {
  const pages = useSignal<readonly BlobPage[]>([]);
  const failure = useSignal<ServerError | undefined>(undefined);
  const more = async () => {
    try {
      const page = await listBlobs(container, prefix, pages.value.at(-1)?.next ?? "");
      pages.value = [...pages.value, page];
      failure.value = undefined;
    } catch (error) {
      if (!(error instanceof ServerError)) throw error;
      failure.value = error;
    }
  };
  useEffect(() => {
    more();
  }, []);
  const prefixes = pages.value.flatMap((page) => page.prefixes);
  const blobs = pages.value.flatMap((page) => page.blobs);
  const isWhole = pages.value.at(-1)?.next === "";
  const now = Date.now();
  return (
    <section class="insight" aria-labelledby="tree-title">
      <h1 id="tree-title">{container}</h1>
      <Path container={container} name={prefix} />
      {failure.value && <Failure error={failure.value} again={more} />}
      {pages.value.length > 0 && prefixes.length + blobs.length === 0 && (
        <div class="empty">
          <p>
            <strong>No blobs{prefix !== "" && ` that begin with ${prefix}`}.</strong>
          </p>
        </div>
      )}
      {prefixes.length + blobs.length > 0 && (
        <table>
          <thead>
            <tr>
              <th scope="col">Name</th>
              <th scope="col" class="number">
                size
              </th>
              <th scope="col">kind</th>
              <th scope="col">changed</th>
            </tr>
          </thead>
          <tbody>
            {prefixes.map((name) => (
              <tr key={`p ${name}`}>
                <th scope="row">
                  <a href={screenAddress("blobs", container, { prefix: name })}>
                    {name.slice(prefix.length)}
                  </a>
                </th>
                <td class="number">—</td>
                <td>prefix</td>
                <td>—</td>
              </tr>
            ))}
            {blobs.map(({ name, bytes: size, type, modifiedAt }) => (
              <tr key={`b ${name}`}>
                <th scope="row">
                  <a href={screenAddress("blobs", container, { blob: name })}>
                    {name.slice(prefix.length)}
                  </a>
                </th>
                <td class="number">{bytes(size)}</td>
                <td>{type}</td>
                <td>{age(modifiedAt, now)}</td>
              </tr>
            ))}
          </tbody>
        </table>
      )}
      {pages.value.length > 0 && (
        <p role="status">
          {counted(prefixes.length, "prefix", "prefixes")} and {counted(blobs.length, "blob")} shown
          {isWhole ? ", that is all." : "; there is more."}{" "}
          {!isWhole && (
            <button type="button" onClick={more}>
              More
            </button>
          )}
        </p>
      )}
    </section>
  );
}

const PART_BYTES = 64 * 1024;
/** What is shown at once: more would make the page slow. */
const SHOWN_BYTES_MAX = 1024 * 1024;
const DOWNLOAD_BYTES_MAX = 1024 ** 3;
const FOLLOW_MS = 2000;

interface Part {
  readonly begin: number;
  readonly bytes: Uint8Array;
}

function Viewer({ container, blob }: { container: string; blob: string }) {
  const { value: facts, failure, again } = useRead(() => readFacts(container, blob), blob);
  return (
    <section class="insight" aria-labelledby="blob-title">
      <h1 id="blob-title">{blob.slice(blob.lastIndexOf("/") + 1)}</h1>
      <Path container={container} name={blob} />
      {failure && <Failure error={failure} again={again} />}
      {facts && (
        <>
          <Content container={container} blob={blob} facts={facts} />
          <details class="twin">
            <summary>Properties and metadata</summary>
            <table>
              <tbody>
                {[...facts.headers].map(([name, value]) => (
                  <tr key={name}>
                    <th scope="row">{name.replace(/^x-ms-meta-/, "metadata: ")}</th>
                    <td class="mono">{value}</td>
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

/** A part of a blob, read by ranges: its end, if it is long. */
function Content({
  container,
  blob,
  facts,
}: {
  container: string;
  blob: string;
  facts: BlobFacts;
}) {
  const part = useSignal<Part | undefined>(undefined);
  const all = useSignal(facts.bytes);
  const failure = useSignal<ServerError | undefined>(undefined);
  const wanted = useSignal("");
  const isHex = useSignal<boolean | undefined>(undefined);
  const follows = useSignal(false);
  const attempt = async (work: () => Promise<void>) => {
    try {
      await work();
      failure.value = undefined;
    } catch (error) {
      if (!(error instanceof ServerError)) throw error;
      failure.value = error;
    }
  };
  const show = (begin: number, end: number) =>
    attempt(async () => {
      const read = await readRange(container, blob, begin, end);
      part.value = { begin, bytes: read };
      isHex.value ??= !isText(read);
    });
  const earlier = () => {
    const { begin, bytes: known } = part.value!;
    const end = Math.min(begin + known.length, begin + SHOWN_BYTES_MAX - PART_BYTES);
    return show(Math.max(0, begin - PART_BYTES), end);
  };
  const later = () => {
    const { begin, bytes: known } = part.value!;
    const end = Math.min(all.value, begin + known.length + PART_BYTES);
    return show(Math.max(begin, end - SHOWN_BYTES_MAX), end);
  };
  const tail = () => show(Math.max(0, all.value - PART_BYTES), all.value);
  useEffect(() => {
    tail();
  }, []);
  useEffect(() => {
    if (!follows.value) return;
    const timer = setInterval(() => {
      attempt(async () => {
        const { bytes: now } = await readFacts(container, blob);
        if (now === all.value) return;
        all.value = now;
        await tail();
      });
    }, FOLLOW_MS);
    return () => clearInterval(timer);
  }, [follows.value]);
  const keep = () =>
    attempt(async () => {
      download(await readWhole(container, blob), blob.slice(blob.lastIndexOf("/") + 1));
    });
  const shown = part.value;
  const end = shown ? shown.begin + shown.bytes.length : 0;
  const text = shown
    ? isHex.value
      ? hexOf(shown.bytes, shown.begin)
      : textOfBytes(shown.bytes, shown.begin > 0)
    : "";
  const lines = wanted.value === "" ? undefined : linesWith(text, wanted.value);
  return (
    <>
      <div class="insight-head">
        <span role="status">
          {shown
            ? `bytes ${count(shown.begin)} to ${count(end)} of ${count(all.value)}`
            : "reading…"}
        </span>
        <button type="button" disabled={!shown || shown.begin === 0} onClick={earlier}>
          Earlier
        </button>
        <button type="button" disabled={!shown || end >= all.value} onClick={later}>
          Later
        </button>
        <button type="button" onClick={() => show(0, Math.min(all.value, PART_BYTES))}>
          Begin
        </button>
        <button type="button" onClick={tail}>
          End
        </button>
        <label class="inline">
          <input
            type="checkbox"
            checked={follows.value}
            onChange={(event) => {
              follows.value = event.currentTarget.checked;
            }}
          />
          follow
        </label>
        <label class="inline">
          <input
            type="checkbox"
            checked={isHex.value ?? false}
            onChange={(event) => {
              isHex.value = event.currentTarget.checked;
            }}
          />
          hex
        </label>
        <input
          type="search"
          aria-label="Lines with"
          placeholder="Lines with…"
          value={wanted.value}
          onInput={(event) => {
            wanted.value = event.currentTarget.value;
          }}
        />
        <button type="button" disabled={all.value > DOWNLOAD_BYTES_MAX} onClick={keep}>
          Download {bytes(all.value)}
        </button>
      </div>
      {failure.value && <Failure error={failure.value} again={tail} />}
      {lines && (
        <p role="status">
          {counted(lines.length, "line")} with “{wanted.value}” in what is shown
        </p>
      )}
      {shown && (
        <section class="content" tabIndex={0} aria-label="Content">
          <pre>{lines ? lines.join("\n") : text}</pre>
        </section>
      )}
    </>
  );
}

function linesWith(text: string, wanted: string): string[] {
  const lower = wanted.toLowerCase();
  return text.split("\n").filter((line) => line.toLowerCase().includes(lower));
}
