import { renameSync, writeFileSync } from "node:fs";
import { readFile, rm } from "node:fs/promises";
import type { VerifyProgress, VerifyReport } from "@rowhouse/patterns/index-scrub";

/** The progress of a scrub of one or more indexes. */
export interface ScrubState {
  /** The reports of the finished indexes. */
  readonly reports: readonly (VerifyReport & { readonly index: string })[];
  readonly current?: { readonly index: string; readonly progress: VerifyProgress };
}

interface Content extends ScrubState {
  /** Such as `verify Employee`; only the same work may continue from this state. */
  readonly work: string;
}

/** Stores the state in a file, which is complete or absent whenever the process ends. */
export class ScrubStateFile {
  readonly #path: string;
  readonly #work: string;

  constructor(path: string, work: string) {
    this.#path = path;
    this.#work = work;
  }

  /** Undefined if the file does not exist. @throws Error if it belongs to other work, or is not a progress file. */
  async read(): Promise<ScrubState | undefined> {
    const text = await readFile(this.#path, "utf8").catch((error: NodeJS.ErrnoException) => {
      if (error.code === "ENOENT") return undefined;
      throw error;
    });
    if (text === undefined) return undefined;
    const content = parse(text);
    if (content?.work === this.#work) return content;
    const found = content ? `of "${content.work}"` : "not a progress file of verify or repair";
    throw new Error(`${this.#path} is ${found}; name another file, or delete it.`);
  }

  write(state: ScrubState): void {
    const content: Content = { work: this.#work, ...state };
    writeFileSync(`${this.#path}.new`, JSON.stringify(content));
    renameSync(`${this.#path}.new`, this.#path);
  }

  remove(): Promise<void> {
    return rm(this.#path, { force: true });
  }
}

/** Undefined for anything that `write` did not write. */
function parse(text: string): Content | undefined {
  try {
    const value: Partial<Content> | null = JSON.parse(text);
    return typeof value?.work === "string" && Array.isArray(value.reports)
      ? { ...value, work: value.work, reports: value.reports }
      : undefined;
  } catch {
    return undefined;
  }
}
