import { existsSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { TableClient, type TransactionAction } from "@azure/data-tables";
import { seededRandom } from "../support/seeded-random.ts";
import { type Movie, makeUpMovies, readMovies } from "../wire/movies.ts";

const REAL = fileURLToPath(new URL("../../../shared/data/movies", import.meta.url));

export interface Films {
  readonly all: number;
  readonly of1984: number;
  /** Of one film alone. */
  readonly title: string;
}

/**
 * Loads the films into a table, one partition a year: the real ones, or made-up ones where there are none.
 * @param only these years
 */
export async function loadFilms(connection: string, only?: readonly string[]): Promise<Films> {
  const movies = existsSync(REAL) ? readMovies(REAL) : makeUpMovies(2400, seededRandom(7));
  const table = clientOf(connection, "Films");
  await table.createTable();
  const years = new Map<string, Map<string, Movie>>();
  for (const movie of movies) {
    if (only && !only.includes(String(movie.year))) continue;
    const year = years.get(String(movie.year)) ?? new Map<string, Movie>();
    years.set(String(movie.year), year.set(movie.title.replace(/[/\\#?%]/g, "_"), movie));
  }
  for (const [partitionKey, all] of years) {
    const actions = [...all].map(
      ([rowKey, { title, year, cast, genres }]): TransactionAction => [
        "upsert",
        {
          ...{
            partitionKey,
            rowKey,
            title,
            year,
            cast: cast.join(", "),
            genres: genres.join(", "),
          },
          ...(cast.length > 3 && { castSize: cast.length }),
        },
      ],
    );
    while (actions.length > 0) await table.submitTransaction(actions.splice(0, 100));
  }
  const titles = [...years.values()].flatMap((year) =>
    [...year.values()].map(({ title }) => title),
  );
  const title = titles.find((each) => titles.indexOf(each) === titles.lastIndexOf(each))!;
  return { all: titles.length, of1984: years.get("1984")!.size, title };
}

export function clientOf(connection: string, name: string): TableClient {
  return TableClient.fromConnectionString(connection, name, { allowInsecureConnection: true });
}
