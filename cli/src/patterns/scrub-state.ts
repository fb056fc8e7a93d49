import { renameSync, writeFileSync } from "node:fs";
import { readFile, rm } from "node:fs/promises";
import type { VerifyProgress, VerifyReport } from "@rowhouse/patterns/index-scrub";

/** How far a scrub of several indexes got. */
export interface ScrubState {
  /** Of the indexes that are done. */
  readonly reports: readonly (VerifyReport & { readonly index: string })[];
  readonly current?: { readonly index: string; readonly progress: VerifyProgress };
}

interface Content extends ScrubState {
  /** `verify Employee`: nothing else goes on from it. */
  readonly work: string;
}

/** Keeps the state in a file, which is whole or absent whenever the process ends. */
export class ScrubStateFile {
  readonly #path: string;
  readonly #work: string;

  constructor(path: string, work: string) {
    this.#path = path;
    this.#work = work;
  }

  /** Undefined when there is no file. @throws Error when it is of other work, or no such file. */
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

/** Undefined when it is nothing that `write` wrote. */
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
