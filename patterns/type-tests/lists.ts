import { blobList } from "../src/blob-list.ts";
import { connect, entity, f, k } from "../src/index.ts";
import { remoteIndex } from "../src/remote-index.ts";
import { remoteList } from "../src/remote-list.ts";
import { memory } from "../src/testing.ts";

const db = connect(memory());
const Film = entity("Film", {
  version: 1,
  fields: { studio: f.string(), id: f.int32(), genres: f.json<readonly string[]>() },
  key: { partition: [k.str("studio")], row: [k.uint("id", 4)] },
  indexes: {
    genre: remoteIndex({
      table: "FilmByGenre",
      partition: [k.str("genre")],
      row: k.ordered(k.str("studio"), k.uint("id", 4)),
      each: { genre: ({ genres }) => genres as readonly string[] },
    }),
    list: remoteList({
      table: "FilmList",
      partition: [k.lit("genre"), k.str("genre")],
      row: [k.lit("films")],
      property: "Films",
      each: { genre: ({ genres }) => genres as readonly string[] },
    }),
    blob: blobList({ container: "films", name: [k.str("studio")] }),
  },
});
const films = db.open(Film);

export async function accepted() {
  const [film] = await films.by.genre.range({ genre: "Drama", studio: { startsWith: "U" } }).all();
  const [listed] = await films.by.list.get({ genre: "Drama" });
  const [key] = await films.by.blob.keys({ studio: "Ufa" });
  return [film?.genres[0]?.length, listed?.id.toFixed(), key?.rowKey.length];
}

export async function refused() {
  // error: 'genre' is missing
  await films.by.list.get({});
  // error: 'genre' does not exist
  await films.by.blob.keys({ genre: "Drama" });
  // error: 'range' does not exist
  films.by.list.range({ genre: "Drama" });
  // error: Type 'number' is not assignable to type 'string'
  films.by.genre.range({ genre: 5 });
}
