import assert from "node:assert/strict";
import { X509Certificate } from "node:crypto";
import { once } from "node:events";
import { rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { after, describe, it } from "node:test";
import { connect } from "node:tls";
import { selfSignedCertificate } from "../support/certificate.ts";
import { RowhouseCommand } from "../support/rowhouse-command.ts";
import { withFolder } from "../support/rowhouse-process.ts";
import { TableWire } from "./table-wire.ts";

const LISTENING = /^Azurite Table service is successfully listening at (\S+)$/m;
const ONE_SERVICE = ["--tableOnly", "--tablePort", "0"];
const [FIRST, SECOND] = ["Zmlyc3Qga2V5", "c2Vjb25kIGtleQ=="];

describe("SIGHUP", () => {
  for (const workers of ["1", "2"]) {
    it(`makes a server of ${workers} process(es) read its accounts again, and serve a new one`, () =>
      withFolder(async (folder) => {
        const config = join(folder, "config.json");
        const write = (accounts: Readonly<Record<string, string>>) => {
          const list = Object.entries(accounts).map(([name, key]) => ({ name, keys: [key] }));
          writeFileSync(config, JSON.stringify({ accounts: list }));
        };
        write({ alpha: FIRST });
        const data = ["--location", join(folder, "data"), "--workers", workers];
        const server = new RowhouseCommand([...ONE_SERVICE, ...data, "--config", config]);
        after(() => server.signal("SIGTERM"));
        const [, url = ""] = await server.until(LISTENING);
        // More connections than workers, so that each worker answers some.
        const statuses = async (account: string, key: string, verb = "GET") => {
          const all = [];
          for (let i = 0; i < 4; i++) {
            const wire = new TableWire({ url: `${url}/${account}`, account, key });
            const body = verb === "POST" ? { body: { TableName: `Table${i}` } } : {};
            all.push((await wire.send(verb, "/Tables", body)).status);
            wire.close();
          }
          return [...new Set(all)];
        };
        assert.deepEqual(await statuses("alpha", FIRST), [200]);

        write({ alpha: SECOND, beta: FIRST });
        server.signal("SIGHUP");
        const read = new RegExp(`(read the accounts[^]*){${workers}}`);
        await server.until(read, "stderr");
        assert.deepEqual(await statuses("alpha", SECOND), [200]);
        assert.deepEqual(await statuses("alpha", FIRST), [403]);
        assert.deepEqual(await statuses("beta", FIRST, "POST"), [201]);

        writeFileSync(config, '{ "accounts": [');
        server.signal("SIGHUP");
        await server.until(/could not read the accounts/, "stderr");
        assert.match(server.stderr, /"reason":"\S+config\.json is not JSON/);
        assert.deepEqual(await statuses("alpha", SECOND), [200]);
        server.signal("SIGTERM");
        assert.equal(await server.exited, 0);
      }));
  }

  it("makes a server show its new certificate, and keep the old one where the new is unusable", () =>
    withFolder(async (folder) => {
      const [cert, key] = [join(folder, "cert.pem"), join(folder, "key.pem")];
      const write = () => {
        const certificate = selfSignedCertificate(new Date());
        writeFileSync(cert, certificate.cert);
        writeFileSync(key, certificate.key);
        return new X509Certificate(certificate.cert).fingerprint256;
      };
      const flags = [...ONE_SERVICE, "--inMemoryPersistence", "--cert", cert, "--key", key];
      const first = write();
      const server = new RowhouseCommand(flags);
      after(() => server.signal("SIGTERM"));
      const [, url = ""] = await server.until(LISTENING);
      assert.equal(await shownAt(url), first);

      const second = write();
      server.signal("SIGHUP");
      await server.until(/read the accounts and the certificate again/, "stderr");
      assert.equal(await shownAt(url), second);

      rmSync(key);
      server.signal("SIGHUP");
      await server.until(/key\.pem.*could not read/, "stderr");
      assert.equal(await shownAt(url), second);
      server.signal("SIGTERM");
      assert.equal(await server.exited, 0);
    }));
});

/** The fingerprint of the certificate that a new connection gets. */
async function shownAt(url: string): Promise<string> {
  const { hostname, port } = new URL(url);
  const socket = connect({ host: hostname, port: Number(port), rejectUnauthorized: false });
  await once(socket, "secureConnect");
  const { fingerprint256 } = socket.getPeerCertificate();
  socket.destroy();
  return fingerprint256;
}
