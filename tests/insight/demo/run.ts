// Runs a shop against a server: node --conditions=rowhouse-source --import tsx tests/insight/demo/run.ts mistaken
import { mistakenShop } from "./mistaken-shop.ts";
import { repairedShop } from "./repaired-shop.ts";
import { openTables } from "./shop.ts";

const wanted = process.argv[2];
const shop = [mistakenShop, repairedShop].find(({ name }) => name === wanted);
if (!shop) throw new Error("Name the shop: mistaken or repaired.");
await shop.run(openTables(process.env.TABLES ?? "UseDevelopmentStorage=true", () => {}));
