import assert from "node:assert/strict";
import { existsSync } from "node:fs";
import { describe, it } from "node:test";
import { fileURLToPath } from "node:url";
import { connect, type Database, entity, f, k } from "@rowhouse/patterns";
import { advise } from "@rowhouse/patterns/advise";
import { batch } from "@rowhouse/patterns/batch";
import { indexLifeCycle } from "@rowhouse/patterns/index-life-cycle";
import { indexRepairs } from "@rowhouse/patterns/index-repairs";
import { verifyIndex } from "@rowhouse/patterns/index-scrub";
import { controlledIndexes } from "@rowhouse/patterns/index-states";
import { createWorker } from "@rowhouse/patterns/queue-worker";
import { remoteIndex } from "@rowhouse/patterns/remote-index";
import { memory } from "@rowhouse/patterns/testing";
import { seededRandom } from "../support/seeded-random.ts";
import { type Movie, readMovies } from "../wire/movies.ts";

/*
 * Index tables over films, each of which has several genres and actors: by genre (full copies), by actor
 * (partly normalized: with the genres, without the plot) and by actor and genre (keys only). The films
 * themselves are spread by a hash of their title, which readers need not compute. Made-up films are always
 * used, and every fifth real one too if their folder next to this repository exists; all of them, whose comparison with
 * a scan takes two minutes, with FILMS=all.
 */

const REAL = fileURLToPath(new URL("../../../shared/data/movies", import.meta.url));

const fields = {
  title: f.string(),
  year: f.int32(),
  /** Remakes sometimes share title and year. */
  take: f.int32(),
  genres: f.json<readonly string[]>(),
  actors: f.json<readonly string[]>(),
  plot: f.string(),
};
const key = {
  partition: [k.hash("title", 16)],
  row: k.ordered(
    k.str("title", { max: 100, overflow: "hash" }),
    k.uint("year", 4),
    k.uint("take", 5),
  ),
} as const;
const byTitle = k.ordered(
  k.str("title", { max: 100, overflow: "hash" }),
  k.uint("year", 4),
  k.uint("take", 5),
);
const listOf = (name: "genres" | "actors") => (row: Readonly<Record<string, unknown>>) =>
  row[name] as readonly string[];

const Plain = entity("Film", { version: 1, fields, key });
const Film = entity("Film", {
  version: 1,
  fields,
  key,
  indexes: {
    genre: remoteIndex({
      table: "FilmByGenre",
      partition: [k.str("genre")],
      row: byTitle,
      each: { genre: listOf("genres") },
    }),
    actor: remoteIndex({
      table: "FilmByActor",
      partition: [k.str("actor")],
      row: byTitle,
      each: { actor: listOf("actors") },
      copy: ["title", "genres", "actors"],
    }),
    actorGenre: remoteIndex({
      table: "FilmByActorAndGenre",
      partition: [k.str("actor")],
      row: k.ordered(
        k.str("genre"),
        k.uint("year", 4),
        k.str("title", { max: 100, overflow: "hash" }),
        k.uint("take", 5),
      ),
      each: { actor: listOf("actors"), genre: listOf("genres") },
      copy: "keys",
    }),
  },
});
type Film = typeof Film.infer;
const NAMES = ["genre", "actor", "actorGenre"] as const;

describe("films by genre and by actor", () => {
  it("that are made up are indexed, found, updated and repaired", async () => {
    await work(makeUpFilms(1150, seededRandom(7)));
  });

  if (existsSync(REAL)) {
    it(`of ${REAL} are indexed, found, updated and repaired`, async () => {
      const films = toFilms(readMovies(REAL));
      await work(process.env.FILMS === "all" ? films : films.filter((_, i) => i % 5 === 0));
    });
  }
});

async function work(films: readonly Film[]): Promise<void> {
  const model = new Map(films.map((film) => [nameOf(film), film]));
  const backend = memory();
  const db = connect({ ...backend, indexStates: controlledIndexes({ unregistered: "readable" }) });
  await db.createTables(Film);
  await db.tables.createTable("rhcontrol");
  for (const name of ["index-repairs", "index-repairs-poison"]) await db.queues?.createQueue(name);
  for (const name of NAMES) await indexLifeCycle(db, Film, name).disable();
  const results = await batch(db, (plan) => {
    for (const film of films) plan.insert(Plain, film);
  });
  assert.ok(results.every(({ ok }) => ok));
  for (const name of NAMES) {
    const { done } = await indexLifeCycle(db, Film, name).build({ rate: 100_000 });
    assert.equal(done, films.length);
  }
  await check(db, model);

  // Films change their genres and their cast, or are deleted.
  const repository = db.open(Film);
  const random = seededRandom(3);
  for (const film of films.filter(() => random() < 0.03)) {
    if (random() < 0.2) {
      await repository.delete(film);
      model.delete(nameOf(film));
      continue;
    }
    const next = {
      ...film,
      genres: [...film.genres.slice(1), "Re/Cut"],
      actors: film.actors.toReversed().slice(0, 3),
    };
    await repository.update(film, () => next);
    model.set(nameOf(film), next);
  }
  const worker = createWorker(db, { queue: "index-repairs", handlers: [indexRepairs([Film])] });
  for (let round = 0; round < 4; round++) {
    await db.clock.sleep(60_000);
    await worker.drain();
  }
  await check(db, model);
  for (const name of NAMES) {
    const { missing, wrong, dangling, duplicate, young, entries } = await verifyIndex(
      db,
      Film,
      name,
    );
    assert.deepEqual([missing, wrong, dangling, duplicate, young], [0, 0, 0, 0, 0], name);
    assert.ok(entries > 0);
  }
  await judge(films);
}

/** Checks that every index returns what a scan of all films returns. */
async function check(db: Database, model: ReadonlyMap<string, Film>): Promise<void> {
  const { by } = db.open(Film);
  const films = [...model.values()];
  const [genres, actors] = [countsOf(films, "genres"), countsOf(films, "actors")];
  const names = (found: readonly Film[]) => found.map(nameOf).sort();
  const eventual = { consistency: "eventual" } as const;
  for (const [genre, count] of genres) {
    const found = await by.genre.range({ genre }, eventual).all();
    assert.equal(found.length, count, genre);
    if (count > 100) continue;
    assert.deepEqual(names(found), names(films.filter((film) => film.genres.includes(genre))));
    assert.deepEqual(names(await by.genre.range({ genre }).all()), names(found));
  }
  for (const [actor] of [...actors].filter((_one, i) => i % 10 === 0)) {
    const theirs = films.filter((film) => film.actors.includes(actor));
    const listed = await by.actor.range({ actor }, eventual).select("title", "genres").all();
    assert.deepEqual(
      listed.map(({ title }) => title).sort(),
      theirs.map(({ title }) => title).sort(),
    );
    const genre = theirs[0]!.genres[0];
    if (genre === undefined) continue;
    const years = { gte: 1930, lt: 1990 };
    const some = await by.actorGenre.range({ actor, genre, year: years }).all();
    const expected = theirs.filter(
      ({ genres, year }) => genres.includes(genre) && year >= 1930 && year < 1990,
    );
    assert.deepEqual(names(some), names(expected));
    const all = (await by.actorGenre.range({ actor }).all()).map(({ year }) => year);
    assert.equal(
      all.length,
      theirs.reduce((sum, { genres }) => sum + new Set(genres).size, 0),
    );
  }
}

/** The advice on these indexes: actors distinguish films; the genre that most films share does not. */
async function judge(films: readonly Film[]): Promise<void> {
  const workload = { reads: 1000, writes: 10 };
  const valueIn = ({ actors }: Film) => actors;
  const byActor = await advise(films, { valueIn, workload, isCovering: true });
  assert.equal(byActor.verdict, "keep");
  const byGenre = await advise(films, { valueIn: ({ genres }) => genres, workload });
  if ((byGenre.commonest?.share ?? 0) < 0.5) return;
  assert.notEqual(byGenre.verdict, "keep");
}

function countsOf(films: readonly Film[], list: "genres" | "actors"): Map<string, number> {
  const counts = new Map<string, number>();
  for (const name of films.flatMap((film) => [...new Set(film[list])])) {
    counts.set(name, (counts.get(name) ?? 0) + 1);
  }
  return counts;
}

function nameOf({ title, year, take }: Film): string {
  return `${title} (${year}, ${take})`;
}

function toFilms(movies: readonly Movie[]): Film[] {
  return movies.map(({ title, year, cast, genres }, take) => ({
    ...{ title, year, take, genres, actors: cast.filter((name) => name !== "") },
    plot: `${title} was made in ${year}.`,
  }));
}

/**
 * As irregular as the real ones: 43 titles that no key may contain unescaped, genres of one film and of a
 * thousand.
 */
function makeUpFilms(count: number, random: () => number): Film[] {
  const pick = <Item>(items: readonly Item[]) => items[Math.floor(random() * items.length)]!;
  const odd = [
    "Face/Off",
    "Who?",
    "#1",
    "C:\\Run",
    "100% Wolf",
    "Amélie",
    "東京",
    "Tab\there",
    "x_y!",
  ];
  const films = Array.from({ length: count }, (_, take): Film => {
    const title =
      take < 43 ? `${pick(odd)} ${take} /?#\\` : `${pick(["The", "A", "No"])} Film ${take % 400}`;
    const genres = random() < 0.95 ? ["Drama"] : [];
    if (random() < 0.1) genres.push("Comedy");
    if (random() < 0.04) genres.push("Film-Noir/Crime");
    if (take === 5) genres.push("Short?");
    const actors = Array.from(
      { length: Math.floor(random() * 3) },
      () => `Actor #${Math.floor(random() ** 3 * 300)}`,
    );
    return {
      ...{ title, year: 1900 + Math.floor(random() * 120), take, genres, actors },
      plot: "x".repeat(100),
    };
  });
  const sizes = [...countsOf(films, "genres").values()];
  assert.ok(Math.max(...sizes) >= 1000 && Math.min(...sizes) === 1);
  assert.equal(films.filter(({ title }) => /[/\\?#]/.test(title)).length, 43);
  return films;
}
