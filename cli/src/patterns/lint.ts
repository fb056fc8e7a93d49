import type { AnyEntity, KeyShape } from "@rowhouse/patterns";
import type { Finding } from "./finding.ts";
import { heatOf } from "./heat.ts";
import { describeKey, kindOf, optionsOf } from "./record.ts";

/** Finds definitions that are valid but go against the design guide. */
export function lintEntities(entities: readonly AnyEntity[]): Finding[] {
  return [
    ...entities.flatMap((entity) => [
      ...lintPartitions(entity),
      ...lintLiteral(entity),
      ...lintPrefixes(entity),
      ...lintUnique(entity),
      ...lintLists(entity),
    ]),
    ...lintShared(entities),
  ];
}

function lintPartitions(entity: AnyEntity): Finding[] {
  const places: [string, KeyShape][] = [[entity.name, entity.rows.partition]];
  for (const [name, index] of Object.entries(entity.indexes)) {
    const place = index.place(entity);
    // Lists in blobs have no partition.
    if (place.partition !== entity.rows.partition && kindOf(index) !== "bloblist") {
      places.push([`${entity.name}.${name}`, place.partition]);
    }
  }
  return places.flatMap(([where, shape]): Finding[] => {
    const { spread, text } = heatOf(shape, entity);
    if (spread === "one partition") {
      const remedy =
        "start the partition key with a field that spreads the load, or with k.hash(field, 16).";
      return [{ id: "constant-partition", level: "warning", where, message: text, remedy }];
    }
    if (spread === "by time") {
      const remedy =
        "put a value that spreads the load first and the time into the row key, or use spread.";
      return [{ id: "time-like-partition", level: "warning", where, message: text, remedy }];
    }
    return [];
  });
}

/** An index or an entity that is added to the table later might have the same keys. */
function lintLiteral({ name, rows }: AnyEntity): Finding[] {
  if (rows.partition.prefix !== "" || rows.row.prefix !== "") return [];
  return [
    {
      id: "no-literal",
      level: "warning",
      where: name,
      message:
        "has a row key that begins with no literal, so its table can have no index and no other entity later",
      remedy:
        'begin the row key with k.lit("…") while there are no rows, or keep the table for these rows.',
    },
  ];
}

/** Of two indexes whose keys begin alike, the longer one answers every query of the shorter one. */
function lintPrefixes(entity: AnyEntity): Finding[] {
  const places = Object.entries(entity.indexes).map(([name, index]) => {
    const place = index.place(entity);
    const isUnique = optionsOf(index).unique === true;
    return { name, isUnique, place, key: fieldsOf(entity, place) };
  });
  return places.flatMap(({ name, isUnique, place, key }) => {
    const longer = places.find(
      (other) =>
        other.name !== name &&
        other.place.table === place.table &&
        other.key.length > key.length &&
        key.every((each, i) => each === other.key[i]),
    );
    // A unique index refuses duplicates that the longer one would accept.
    if (!longer || isUnique) return [];
    return [
      {
        id: "left-prefix",
        level: "warning",
        where: `${entity.name}.${name}`,
        message: `${longer.name} starts with the same fields and answers its queries`,
        remedy: `query ${longer.name}, and retire this one.`,
      } as const,
    ];
  });
}

/**
 * The fields of a place's keys with their codecs, without literals, which only separate indexes, and without
 * trailing fields of the entity's own key.
 */
function fieldsOf(
  { rows }: AnyEntity,
  { partition, row }: { readonly partition: KeyShape; readonly row: KeyShape },
): string[] {
  const inRow = segmentsIn(row);
  while (rows.keyFields.has(row.segments[inRow.length - 1]?.field ?? "")) inRow.pop();
  return [...segmentsIn(partition), ...inRow];
}

function segmentsIn(shape: KeyShape): string[] {
  return Array.from(describeKey(shape).matchAll(/<[^>]+>/g), ([segment]) => segment);
}

function lintUnique(entity: AnyEntity): Finding[] {
  return Object.entries(entity.indexes).flatMap(([name, index]): Finding[] => {
    const { unique, mode } = optionsOf(index);
    if (kindOf(index) !== "remote" || unique !== true || mode !== "inline") return [];
    return [
      {
        id: "unguarded-unique",
        level: "warning",
        where: `${entity.name}.${name}`,
        message:
          "is unique across partitions and inline: a value claimed by a writer that crashed stays claimed",
        remedy: 'connect with queues and declare mode: "guarded".',
      },
    ];
  });
}

/** A full list that cannot spill refuses every further entity with its value. */
function lintLists(entity: AnyEntity): Finding[] {
  return Object.entries(entity.indexes).flatMap(([name, index]): Finding[] => {
    const { spill = "none" } = optionsOf(index);
    if (kindOf(index) !== "list" || spill !== "none") return [];
    return [
      {
        id: "unbounded-list",
        level: "warning",
        where: `${entity.name}.${name}`,
        message:
          "the number of entities that share a value is unbounded, and its list cannot spill",
        remedy: 'keep one row for each member (siblingIndex), or declare spill: "entities".',
      },
    ];
  });
}

/** Entities in one table must differ in how their keys begin. */
function lintShared(entities: readonly AnyEntity[]): Finding[] {
  return entities.flatMap((entity, i) =>
    entities.slice(i + 1).flatMap((other): Finding[] => {
      if (!mayCollide(entity, other)) return [];
      return [
        {
          id: "overlapping-keys",
          level: "error",
          where: `${entity.name}, ${other.name}`,
          message: `share ${entity.table} and may have equal keys`,
          remedy: "start each row key with its own literal.",
        },
      ];
    }),
  );
}

function mayCollide(a: AnyEntity, b: AnyEntity): boolean {
  const isNear = (x: string, y: string) => x.startsWith(y) || y.startsWith(x);
  return (
    a.table.toLowerCase() === b.table.toLowerCase() &&
    isNear(a.rows.partition.prefix, b.rows.partition.prefix) &&
    isNear(a.rows.row.prefix, b.rows.row.prefix) &&
    mayHaveAsManyParts(a.rows.row, b.rows.row)
  );
}

/**
 * A child's key extends its parent's (`empid_000123`, `empid_000123_2012`). The shorter key can have as many parts
 * only if it ends with text that may contain the separator, as in the readable layout.
 */
function mayHaveAsManyParts(a: KeyShape, b: KeyShape): boolean {
  if (a.parts.length === b.parts.length || a.layout !== b.layout) return true;
  const shorter = a.parts.length < b.parts.length ? a : b;
  const last = shorter.parts.at(-1);
  const endsOpen = last !== undefined && "form" in last && last.form !== "fixed";
  return a.layout === "readable" && endsOpen;
}
