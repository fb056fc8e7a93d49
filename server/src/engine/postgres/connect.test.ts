import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import { EngineError } from "../engine.ts";
import type { PostgresConfig, TlsMode } from "./config.ts";
import { openPostgresEngine } from "./postgres-engine.ts";
import { FORMAT } from "./schema.ts";
import { selfSignedCertificate } from "./test-certificate.ts";
import { Relay } from "./test-relay.ts";
import { LocalServer } from "./test-server.ts";
import { commit, keyOf, textOf } from "./test-workloads.ts";

const PARSE = "P".charCodeAt(0);

describe("A connection to PostgreSQL", () => {
  const { cert, key } = selfSignedCertificate("localhost");
  let server: LocalServer;

  before(async () => {
    server = await LocalServer.create();
    server.writeFile("server.crt", cert);
    server.writeFile("server.key", key);
    server.configure({ ssl: "on" });
    server.writeFile(
      "pg_hba.conf",
      "hostnossl all postgres 127.0.0.1/32 trust\nhostssl all all 127.0.0.1/32 scram-sha-256\n",
    );
    await server.start();
    await server.run("CREATE ROLE writer LOGIN PASSWORD 'sesame'", "CREATE DATABASE store");
    const admin = await openPostgresEngine({ url: server.url("store") });
    await admin.close();
  });
  after(() => server.remove());

  function open(tls: TlsMode, options: Partial<PostgresConfig> & { host?: string } = {}) {
    return openPostgresEngine({
      config: {
        hosts: [{ host: options.host ?? "localhost", port: server.port }],
        database: "store",
        user: "writer",
        password: "sesame",
        certificateAuthority: cert,
        tls,
        ...options,
      },
    });
  }

  async function grant(): Promise<void> {
    await server.runIn("store", "GRANT SELECT, INSERT, UPDATE, DELETE ON rh_kv TO writer");
  }

  it("works over verified TLS with a role that may only read and write rows of the table", async () => {
    await grant();
    const engine = await open("verify-full");
    const at = keyOf("tls", "a");
    await commit(engine, { puts: [[at, "x"]] });
    const other = keyOf("tls2", "a");
    await commit(engine, {
      checks: [{ key: at, expected: "present" }],
      puts: [[other, "y"]],
      deletes: [at],
    });
    assert.deepEqual((await engine.get([at, other])).map(textOf), [undefined, "y"]);
    await engine.close();
  });

  it("calls a password function for each connection", async () => {
    await grant();
    let asked = 0;
    const engine = await open("verify-full", {
      password: async () => {
        asked++;
        return "sesame";
      },
    });
    await engine.get([keyOf("tls", "a")]);
    await commit(engine, { puts: [[keyOf("tls", "b"), "x"]] });
    assert.equal(asked, 2);
    await engine.close();
  });

  it("refuses a server whose certificate is from an unknown authority", async () => {
    const stranger = selfSignedCertificate("localhost").cert;
    await assertRefused(
      open("verify-full", { certificateAuthority: stranger }),
      /self.signed|verify/,
    );
    await assertRefused(
      open("verify-ca", { certificateAuthority: stranger }),
      /self.signed|verify/,
    );
  });

  it("refuses a server with the certificate of another host, except with verify-ca", async () => {
    await grant();
    await assertRefused(open("verify-full", { host: "127.0.0.1" }), /altname|127\.0\.0\.1/);
    const engine = await open("verify-ca", { host: "127.0.0.1" });
    await engine.close();
  });

  it("encrypts without verification with sslmode=require", async () => {
    await grant();
    const engine = await open("require", { certificateAuthority: undefined });
    await engine.close();
  });

  it("is given up after the time of a query when the server does not answer after the login", async (test) => {
    const relay = await Relay.open(server.url("store"));
    const asked = new Promise<void>((resolve) => {
      relay.onRequest = (message) => {
        if (message[0] !== PARSE) return message;
        resolve();
        return Buffer.alloc(0);
      };
    });
    test.mock.timers.enable({ apis: ["setTimeout"] });
    const opening = assertRefused(openPostgresEngine({ url: relay.url }), /did not answer in time/);
    await asked;
    test.mock.timers.tick(5_000);
    await opening;
    test.mock.timers.reset();
    await relay.close();
  });

  it("is given up when its engine is closed during the login or the greeting", async (test) => {
    for (const hangs of ["login", "greeting"]) {
      const relay = await Relay.open(server.url("store"));
      const engine = await openPostgresEngine({ url: relay.url });
      const asked = new Promise<void>((resolve) => {
        relay.onAnswer = (_code, _body, connection) => {
          if (connection === 0 || hangs !== "login") return "pass";
          resolve();
          return "swallow";
        };
        relay.onRequest = (message, connection) => {
          if (connection === 0 || message[0] !== PARSE) return message;
          resolve();
          return Buffer.alloc(0);
        };
      });
      test.mock.timers.enable({ apis: ["setTimeout"] });
      const scanning = assert.rejects(async () =>
        engine.scan({ start: keyOf("a", "") }, () => true),
      );
      await asked;
      await engine.close();
      await scanning;
      await relay.whenLeft();
      test.mock.timers.reset();
      await relay.close();
    }
  });

  it("causes no MaxListenersExceededWarning when a pool opens all its connections", async (test) => {
    const warnings: string[] = [];
    const onWarning = ({ name }: Error) => warnings.push(name);
    process.on("warning", onWarning);
    test.after(() => process.off("warning", onWarning));
    const engine = await openPostgresEngine({ url: server.url("store") });
    const write = (_: unknown, i: number) =>
      commit(engine, { puts: ["a", "b"].map((sort) => [keyOf(`warning ${i}`, sort), "x"]) });
    await Promise.all(Array.from({ length: 16 }, write));
    await engine.close();
    assert.equal(warnings.includes("MaxListenersExceededWarning"), false);
  });

  it("closes without waiting for a server that hangs", async () => {
    const relay = await Relay.open(server.url("store"));
    const engine = await openPostgresEngine({ url: relay.url });
    relay.onRequest = () => Buffer.alloc(0);
    relay.keepsOpen = true;
    await engine.close();
    await relay.whenLeft();
    await relay.close();
  });

  it("is closed when the server rejects the first statement after the login", async () => {
    const relay = await Relay.open(server.url("store"));
    relay.onRequest = (message) => {
      if (message[0] === PARSE) message.write("REJECT", message.indexOf("SELECT"));
      return message;
    };
    await assert.rejects(openPostgresEngine({ url: relay.url }), /syntax error/);
    await relay.whenLeft();
    await relay.close();
  });

  it("reports the server's reason when the server refuses plain text", async () => {
    await assertRefused(open("disable"), /no encryption|28000/);
  });

  it("reports a wrong password", async () => {
    await assertRefused(open("verify-full", { password: "guess" }), /28P01/);
  });

  it("names the install command when the table is missing and its role may not create it", async () => {
    await server.run("CREATE DATABASE empty");
    await assertRefused(open("verify-full", { database: "empty" }), /engine install/);
  });

  it("refuses a schema of a newer format", async () => {
    await grant();
    const format = (value: string) =>
      server.runIn("store", `UPDATE rh_kv SET val = '${value}' WHERE pk = '' AND sk = 'schema'`);
    await format(String(FORMAT + 1));
    await assertRefused(open("verify-full"), new RegExp(`format ${FORMAT + 1}`));
    await format(String(FORMAT));
  });

  async function assertRefused(opening: Promise<{ close(): Promise<void> }>, message: RegExp) {
    await assert.rejects(
      async () => (await opening).close(),
      (error) =>
        error instanceof EngineError && error.code === "Unavailable" && message.test(error.message),
    );
  }
});
