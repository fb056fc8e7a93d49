/** Determines a history: the same seed, the same history. */
export const seed = Number(process.env.SIMULATION_SEED ?? Date.now() % 1_000_000);
/** How many times as long histories are as in `npm test`. */
export const times = Number(process.env.SIMULATION_TIMES ?? 1);
