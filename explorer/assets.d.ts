/** The built page, as `node explorer/build.mjs` writes it: its files, by name. */
export declare const assets: ReadonlyMap<
  string,
  { readonly type: string; readonly gzip: Uint8Array }
>;
/** The names of the packages of others that are in it. */
export declare const packages: readonly string[];
/** The files that are loaded before anything is shown. */
export declare const first: readonly string[];
