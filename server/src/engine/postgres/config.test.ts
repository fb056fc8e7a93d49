import assert from "node:assert/strict";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, it } from "node:test";
import { describeConfig, parsePostgresUrl, type TlsMode, tlsFor } from "./config.ts";

describe("parsePostgresUrl", () => {
  it("reads every part of a URL", () => {
    const config = parsePostgresUrl("postgres://me:p%40ss@db.example:6000/store?sslmode=require");
    assert.deepEqual(
      [config.hosts, config.user, config.password, config.database, config.tls],
      [[{ host: "db.example", port: 6000 }], "me", "p@ss", "store", "require"],
    );
  });

  it("fills in defaults for missing parts", () => {
    const config = parsePostgresUrl("postgres://");
    assert.deepEqual(
      [config.hosts, config.user, config.password, config.database, config.tls],
      [[{ host: "localhost", port: 5432 }], "postgres", undefined, "postgres", undefined],
    );
  });

  it("reads several hosts, addresses in brackets and socket directories", () => {
    const { hosts } = parsePostgresUrl("postgresql://me@a:1,b,[::1]:3,%2Fvar%2Frun/x");
    assert.deepEqual(hosts, [
      { host: "a", port: 1 },
      { host: "b", port: 5432 },
      { host: "::1", port: 3 },
      { host: "/var/run", port: 5432 },
    ]);
  });

  it("refuses malformed, unknown and unsafe parts", () => {
    for (const url of [
      "mysql://a/b",
      "postgres://a:b:c/x",
      "postgres://a:0/x",
      "postgres://a:70000/x",
      "postgres://a/x?sslmod=require",
      "postgres://a/x?sslmode=prefer",
      "postgres://a/x?sslcert=only-one",
      "postgres://a/x?target_session_attrs=any",
    ]) {
      assert.throws(
        () => parsePostgresUrl(url),
        url.includes("only-one") ? Error : RangeError,
        url,
      );
    }
  });

  it("accepts an @ in a parameter, with and without a user", () => {
    const options = "-c search_path=me@corp";
    for (const user of ["", "me@"]) {
      const config = parsePostgresUrl(`postgres://${user}localhost/x?options=${options}`);
      assert.deepEqual([config.options, config.database], [options, "x"]);
    }
  });

  it("never shows the password in an error or description", () => {
    const config = parsePostgresUrl("postgres://me:secret@a:1,b:2/x");
    assert.equal(describeConfig(config), "postgres://me@a:1,b:2/x");
    assert.throws(
      () => parsePostgresUrl("postgres://me:secret@a:0/x"),
      (error: Error) => !error.message.includes("secret"),
    );
    for (const password of [
      ...["sec@ret", "sec/ret", "sec?ret", "sec%ret", "s/ec:r@et", "%zz"],
      ...["sec@?ret", "sec@/?ret", "sec?ret=x&ret", "sec/?ret"],
    ]) {
      assert.throws(
        () => parsePostgresUrl(`postgres://me:${password}@a:1/x`),
        (error: Error) => error instanceof RangeError && !/sec|ret/.test(error.message),
        password,
      );
      const encoded = encodeURIComponent(password);
      assert.equal(parsePostgresUrl(`postgres://me:${encoded}@a:1/x`).password, password);
    }
  });
});

describe("tlsFor", () => {
  const tlsOf = (host: string, tls?: TlsMode) =>
    tlsFor({ hosts: [], database: "x", user: "x", tls }, { host, port: 1 });

  it("uses plain text for connections within this machine by default", () => {
    for (const host of ["localhost", "127.0.0.1", "127.9.9.9", "::1", "/var/run/postgresql"]) {
      assert.equal(tlsOf(host), false, host);
    }
  });

  it("verifies every other host by default", () => {
    for (const host of [
      "db.example",
      "10.0.0.1",
      "127.0.0.1.example",
      "::2",
      "localhost.example",
    ]) {
      const tls = tlsOf(host);
      assert.ok(tls !== false && tls.rejectUnauthorized === true, host);
      assert.equal(tls.checkServerIdentity, undefined);
    }
    assert.equal(tlsOf("db.example", "disable"), false);
  });

  it("follows the configured mode, also on loopback", () => {
    const required = tlsOf("localhost", "require");
    assert.ok(required !== false && required.rejectUnauthorized === false);
    const anyName = tlsOf("db.example", "verify-ca");
    assert.ok(anyName !== false && anyName.rejectUnauthorized === true);
    assert.notEqual(anyName.checkServerIdentity, undefined);
  });

  it("reads the authority and the client certificate from their files", () => {
    const directory = mkdtempSync(join(tmpdir(), "rowhouse-config-"));
    try {
      for (const name of ["ca", "cert", "key"]) writeFileSync(join(directory, name), `<${name}>`);
      const at = (name: string) => encodeURIComponent(join(directory, name));
      const files = `sslrootcert=${at("ca")}&sslcert=${at("cert")}&sslkey=${at("key")}`;
      const config = parsePostgresUrl(`postgres://db.example/x?${files}`);
      const tls = tlsFor(config, config.hosts[0]!);
      assert.ok(tls !== false);
      assert.deepEqual([tls.ca, tls.cert, tls.key], ["<ca>", "<cert>", "<key>"]);
    } finally {
      rmSync(directory, { recursive: true });
    }
  });
});
