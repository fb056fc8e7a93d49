import { randomBytes } from "node:crypto";
import { DEVELOPMENT_ACCOUNT } from "@rowhouse/server/auth/accounts";
import { startLocalServer } from "./local-server.ts";
import { type TableTarget, TableWire } from "./table-wire.ts";

/**
 * The server that the wire tests use: the endpoint in `TARGET` (with `TARGET_ACCOUNT` and `TARGET_KEY`), which
 * may be a Rowhouse, the emulator or a real account; by default a Rowhouse in this process.
 */
export class WireTarget implements TableTarget {
  readonly url: string;
  readonly account: string;
  readonly key: string;
  readonly wire: TableWire;
  readonly #tables: string[] = [];
  readonly #stop: () => Promise<void>;

  private constructor(target: TableTarget, stop: () => Promise<void>) {
    this.url = target.url;
    this.account = target.account;
    this.key = target.key;
    this.#stop = stop;
    this.wire = new TableWire(this);
  }

  static async open(): Promise<WireTarget> {
    const { TARGET, TARGET_ACCOUNT, TARGET_KEY } = process.env;
    const account = TARGET_ACCOUNT ?? DEVELOPMENT_ACCOUNT.name;
    const key = TARGET_KEY ?? Buffer.from(DEVELOPMENT_ACCOUNT.keys[0]!).toString("base64");
    if (TARGET) return new WireTarget({ url: TARGET, account, key }, async () => {});
    const server = await startLocalServer();
    return new WireTarget({ url: `${server.url}/${account}`, account, key }, () => server.close());
  }

  get connectionString(): string {
    return `DefaultEndpointsProtocol=http;AccountName=${this.account};AccountKey=${this.key};TableEndpoint=${this.url}`;
  }

  /** A new table name; the table is removed with the target. */
  name(): string {
    const name = `T${randomBytes(6).toString("hex")}`;
    this.#tables.push(name);
    return name;
  }

  /** A new table. */
  async table(): Promise<string> {
    const name = this.name();
    const created = await this.wire.send("POST", "/Tables", { body: { TableName: name } });
    if (created.status !== 201) throw new Error(String(created));
    return name;
  }

  /** A new table that contains these entities. */
  async tableOf(...entities: object[]): Promise<string> {
    const name = await this.table();
    for (const entity of entities) await this.insert(name, entity);
    return name;
  }

  async insert(table: string, entity: object): Promise<void> {
    const answer = await this.wire.send("POST", `/${table}`, {
      body: entity,
      headers: { Prefer: "return-no-content" },
    });
    if (answer.status !== 204) throw new Error(String(answer));
  }

  async close(): Promise<void> {
    for (const name of this.#tables) await this.wire.send("DELETE", `/Tables('${name}')`);
    this.wire.close();
    await this.#stop();
  }
}
