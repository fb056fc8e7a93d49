import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";

export interface Movie {
  readonly title: string;
  readonly year: number;
  readonly cast: readonly string[];
  readonly genres: readonly string[];
}

/**
 * Reads the films of a folder from whatever JSON it contains: files with an array, with objects that contain
 * arrays, or with one object per line. Member names may differ a little between sources.
 */
export function readMovies(folder: string): Movie[] {
  const files = readdirSync(folder, { recursive: true, encoding: "utf8" })
    .filter((name) => /\.(json|jsonl|ndjson)$/i.test(name))
    .sort();
  const movies = files.flatMap((name) => {
    const text = readFileSync(join(folder, name), "utf8").replace(/^\ufeff/, "");
    return recordsIn(parse(text))
      .map(toMovie)
      .filter((movie) => movie !== undefined);
  });
  if (movies.length === 0) {
    throw new Error(
      `No film was found in ${folder}, in files ${files.join(", ") || "that there are none of"}.`,
    );
  }
  return movies;
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    const lines = text.split("\n").filter((line) => line.trim() !== "");
    return lines.map((line) => JSON.parse(line) as unknown);
  }
}

type Fields = Readonly<Record<string, unknown>>;

/** Every object that has a title, at any depth. */
function recordsIn(value: unknown): Fields[] {
  if (Array.isArray(value)) return value.flatMap(recordsIn);
  if (typeof value !== "object" || value === null) return [];
  const fields = value as Fields;
  return titleOf(fields) === undefined ? Object.values(fields).flatMap(recordsIn) : [fields];
}

function titleOf(fields: Fields): string | undefined {
  const title = fields.title ?? fields.Title ?? fields.name;
  return typeof title === "string" && title !== "" ? title : undefined;
}

function toMovie(fields: Fields): Movie | undefined {
  const title = titleOf(fields);
  const cast = namesIn(fields.cast ?? fields.Cast ?? fields.actors ?? fields.stars);
  const genres = namesIn(fields.genres ?? fields.Genres ?? fields.genre);
  if (title === undefined || (cast.length === 0 && genres.length === 0)) return undefined;
  const year = /\d{4}/.exec(
    String(fields.year ?? fields.Year ?? fields.release_date ?? fields.date ?? ""),
  );
  return { title, year: year ? Number(year[0]) : 0, cast, genres };
}

/** A list of names, of objects with names, or a text with commas; each name once. */
function namesIn(value: unknown): string[] {
  const list = Array.isArray(value) ? value : typeof value === "string" ? value.split(/[,|;]/) : [];
  const names = list.map((item: unknown) =>
    typeof item === "string" ? item : titleOf((item ?? {}) as Fields),
  );
  return [
    ...new Set(
      names.map((name) => name?.trim()).filter((name) => name !== undefined && name !== ""),
    ),
  ] as string[];
}

/** Made-up films in the shape of real ones, for machines without the data set. */
export function makeUpMovies(count: number, random: () => number): Movie[] {
  const below = (n: number) => Math.floor(random() * n);
  const genres = [
    "Comedy",
    "Drama",
    "Sci-Fi / Fantasy",
    "Action",
    "Western",
    "Noir",
    "Documentary",
  ];
  const first = ["Ann", "José", "Søren", "Ngô", "Mary", "D'Arcy", "李", "Zoë"];
  const last = ["Smith", "O'Neil", "García", "Müller", "李", "Jones #2", "van der Berg"];
  const some = (max: number, draw: () => string) => [
    ...new Set(Array.from({ length: 1 + below(max) }, draw)),
  ];
  return Array.from({ length: count }, (_, i) => ({
    title: `${first[below(8)]} ${["and the", "or:", "?", "vs.", "100% \\"][below(5)]} ${last[below(7)]} ${below(count)}`,
    year: 1900 + (i % 120),
    cast: some(12, () => `${first[below(8)]} ${last[below(7)]} ${below(count / 2)}`),
    genres: some(3, () => genres[below(7)]!),
  }));
}
