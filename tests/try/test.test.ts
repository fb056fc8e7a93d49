import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { after, before, describe, it } from "node:test";
import { fileURLToPath } from "node:url";
import { TableClient, TableServiceClient } from "@azure/data-tables";
import { ContainerClient } from "@azure/storage-blob";
import { QueueClient } from "@azure/storage-queue";
import { type StartOptions, startRowhouse, type TestServer } from "rowhouse/testing";
import { RowhouseCommand } from "../support/rowhouse-command.ts";
import { EmptyFolder, type Packed, packed, TRIES_ALL } from "./empty-folder.ts";

const root = fileURLToPath(new URL("../..", import.meta.url));
const SOURCES = ["--conditions=rowhouse-source", "--import", "tsx"];

/** A folder to begin with: every kind of file, and every type of property. */
function seedFolder(): string {
  const folder = mkdtempSync(join(tmpdir(), "rowhouse-seed-"));
  const files = {
    "tables/Films.jsonl": [
      '{"PartitionKey":"1972","RowKey":"a","rating":8.5,"rating@odata.type":"Edm.Double","votes":5}',
      '{"PartitionKey":"1972","RowKey":"b","id":"7","id@odata.type":"Edm.Int64"}',
    ].join("\n"),
    "tables/People.csv":
      'PartitionKey,RowKey,Timestamp,name,age,age@type,big,big@type\r\np,1,,"Le ""Duc"", Nathalie",40,Edm.Int32,9007199254740993,Int64\r\np,2,,,,,,\r\n',
    "queues/work.jsonl": '"first <&>"\n"second"\n',
    "blobs/pictures/a/b.json": "{}",
  };
  for (const [name, text] of Object.entries(files)) {
    mkdirSync(dirname(join(folder, name)), { recursive: true });
    writeFileSync(join(folder, name), text);
  }
  return folder;
}

function tableOf(server: TestServer, name: string): TableClient {
  return TableClient.fromConnectionString(server.connectionString, name, server.clientOptions);
}

async function withServer(
  options: StartOptions,
  work: (server: TestServer) => Promise<void>,
): Promise<void> {
  const server = await startRowhouse(options);
  try {
    await work(server);
  } finally {
    await server.close();
  }
}

describe("startRowhouse", () => {
  it("begins with the seed, in all three services, with the types of both kinds of files", async () => {
    const folder = seedFolder();
    await withServer({ seed: folder }, async (server) => {
      const films = tableOf(server, "Films");
      const { rating, votes } = await films.getEntity("1972", "a", { disableTypeConversion: true });
      assert.deepEqual(
        [rating, votes],
        [
          { type: "Double", value: "8.5" },
          { type: "Int32", value: "5" },
        ],
      );
      assert.equal((await films.getEntity("1972", "b")).id, 7n);
      const people = tableOf(server, "People");
      const { name, age, big } = await people.getEntity("p", "1");
      assert.deepEqual([name, age, big], ['Le "Duc", Nathalie', 40, 9007199254740993n]);
      assert.equal("name" in (await people.getEntity("p", "2")), false);
      const queue = new QueueClient(server.connectionString, "work");
      const { receivedMessageItems } = await queue.receiveMessages({ numberOfMessages: 2 });
      const texts = receivedMessageItems.map(({ messageText }) => messageText);
      assert.deepEqual(texts, ["first <&>", "second"]);
      const blob = new ContainerClient(server.connectionString, "pictures").getBlobClient(
        "a/b.json",
      );
      assert.equal((await blob.getProperties()).contentType, "application/json");

      await films.deleteEntity("1972", "a");
      await queue.createIfNotExists();
      await server.reset();
      assert.equal((await films.getEntity("1972", "a")).votes, 5);
      assert.equal((await queue.receiveMessages()).receivedMessageItems.length, 1);
    });
    rmSync(folder, { recursive: true });
  });

  it("does not start with a seed that the service refuses, and says where", async () => {
    const folder = seedFolder();
    const films = join(folder, "tables/Films.jsonl");
    writeFileSync(films, `${readFileSync(films, "utf8")}\n{"PartitionKey":"a/b","RowKey":"c"}`);
    const seed = { seed: folder };
    await assert.rejects(startRowhouse(seed), /tables\/Films\.jsonl: entity 3: .* answered 400: /);
    writeFileSync(films, "PartitionKey\n");
    await assert.rejects(startRowhouse(seed), /Films\.jsonl: entity 1: /);
    writeFileSync(join(folder, "queues/work.jsonl"), '"a"\n1\n');
    rmSync(films);
    await assert.rejects(startRowhouse(seed), /work\.jsonl: line 2 is not a JSON string/);
    writeFileSync(join(folder, "notes.txt"), "");
    await assert.rejects(
      startRowhouse(seed),
      /has "notes\.txt"; tables, queues, blobs are allowed/,
    );
    rmSync(folder, { recursive: true });
    await assert.rejects(startRowhouse(seed), /is not a folder; name one with tables/);
  });

  it("tells which queries scanned, and forgets them at a reset", () =>
    withServer({}, async (server) => {
      const table = tableOf(server, "Films");
      await table.createTable();
      await table.createEntity({ partitionKey: "p", rowKey: "r", votes: 1 });
      await table.getEntity("p", "r");
      server.assertNothingScanned();
      const since = server.mark();
      await table.listEntities({ queryOptions: { filter: "votes eq 1" } }).next();
      assert.deepEqual(
        server.queries({ since }).map((query) => [query.table, query.class, query.filter]),
        [["Films", "table scan", "votes eq 1"]],
      );
      assert.throws(
        () => server.assertNothingScanned({ since }),
        /^Error: A query scanned:\n {2}Films: table scan where votes eq 1, read 1 entities to return 1$/,
      );
      await server.reset();
      assert.deepEqual(server.queries(), []);
      await assert.rejects(table.getEntity("p", "r"), { statusCode: 404 });
      await table.createTable();
      assert.equal((await table.listEntities().next()).value, undefined);
    }));

  it("fails requests by rules until told otherwise", () =>
    withServer({ faults: "503 on CreateTable" }, async (server) => {
      const service = TableServiceClient.fromConnectionString(server.connectionString, {
        ...server.clientOptions,
        retryOptions: { maxRetries: 0 },
      });
      await assert.rejects(service.createTable("Films"), { statusCode: 503 });
      server.faults();
      await service.createTable("Films");
      assert.throws(() => server.faults("503 on Nothing"), /"Nothing" in a fault rule/);
    }));

  it("lives in the time of its clock", async () => {
    let now = Date.UTC(2030, 0, 1);
    await withServer({ clock: { now: () => now }, services: ["queue"] }, async (server) => {
      const queue = new QueueClient(server.connectionString, "work");
      await queue.create();
      await queue.sendMessage("one");
      assert.equal((await queue.receiveMessages()).receivedMessageItems.length, 1);
      assert.equal((await queue.receiveMessages()).receivedMessageItems.length, 0);
      now += 31_000;
      const [again] = (await queue.receiveMessages()).receivedMessageItems;
      assert.equal(again!.dequeueCount, 2);
      assert.equal(again!.insertedOn.getUTCFullYear(), 2030);
      assert.deepEqual(Object.keys(server.urls), ["queue"]);
    });
  });

  it("gives tests that share a server accounts of their own", () =>
    withServer({}, async (server) => {
      const accounts = await Promise.all([server.createAccount(), server.createAccount()]);
      const services = accounts.map(({ connectionString }) =>
        TableServiceClient.fromConnectionString(connectionString, server.clientOptions),
      );
      await Promise.all(services.map((service) => service.createTable("Same")));
      await services[0]!.deleteTable("Same");
      assert.equal((await services[1]!.listTables().next()).value?.name, "Same");
    }));

  it("keeps a folder's data when it is closed", async () => {
    const path = mkdtempSync(join(tmpdir(), "rowhouse-data-"));
    for (const action of ["createEntity", "deleteEntity"] as const) {
      await withServer({ engine: { path } }, async (server) => {
        const table = tableOf(server, "Films");
        await table.createTable();
        if (action === "createEntity") await table.createEntity({ partitionKey: "p", rowKey: "r" });
        else await table.deleteEntity("p", "r");
      });
    }
    rmSync(path, { recursive: true });
  });

  it("leaves nothing behind: no signal handler, no output, no handle that keeps the process", () => {
    const program = `
      import { startRowhouse } from "rowhouse/testing";
      const signals = () => process.eventNames().filter((name) => String(name).startsWith("SIG")).length;
      const before = signals();
      const servers = await Promise.all([startRowhouse(), startRowhouse(), startRowhouse()]);
      if (signals() !== before) throw new Error("It handles a signal.");
      for (const server of servers) await server[Symbol.asyncDispose]();`;
    const eval_ = ["--input-type=module", "--eval", program];
    const { status, stdout, stderr } = spawnSync(process.execPath, [...SOURCES, ...eval_], {
      cwd: root,
      encoding: "utf8",
    });
    assert.deepEqual([status, stdout + stderr], [0, ""]);
  });
});

describe("A server with --ci", () => {
  const folder = seedFolder();
  after(() => rmSync(folder, { recursive: true }));
  const flags = ["--inMemoryPersistence", "--tablePort=0", "--queuePort=0", "--blobPort=0"];
  const LISTENING = /^Azurite Table service is successfully listening at (\S+)$/m;
  const post = async (url: string, path: string, body?: unknown, headers = {}) => {
    const init = {
      method: "POST",
      headers,
      ...(body !== undefined && { body: JSON.stringify(body) }),
    };
    const response = await fetch(`${url}/_rowhouse/${path}`, init);
    const text = await response.text();
    return { status: response.status, text, json: () => JSON.parse(text) };
  };

  it("gives each test an account, with the seed where it asks for it, and empties it", async () => {
    const server = new RowhouseCommand([...flags, "--ci", "--seed", folder]);
    try {
      const [, url = ""] = await server.until(LISTENING);
      const created = await Promise.all(
        [{ seed: true }, undefined, { name: "mine" }].map((body) => post(url, "accounts", body)),
      );
      assert.deepEqual(
        created.map(({ status }) => status),
        [201, 201, 201],
      );
      const [seeded, empty, mine] = created.map((each) => each.json());
      assert.equal(mine.account, "mine");
      const tables = async ({ connectionString }: { connectionString: string }) => {
        const names: (string | undefined)[] = [];
        const options = { allowInsecureConnection: true };
        const service = TableServiceClient.fromConnectionString(connectionString, options);
        for await (const { name } of service.listTables()) names.push(name);
        return names;
      };
      assert.deepEqual(await tables(seeded), ["Films", "People"]);
      assert.deepEqual(await tables(empty), []);
      assert.equal((await post(url, "reset", { account: seeded.account })).status, 200);
      assert.deepEqual(await tables(seeded), []);
      assert.equal((await post(url, "reset", { account: seeded.account, seed: true })).status, 200);
      assert.deepEqual(await tables(seeded), ["Films", "People"]);

      for (const [path, body, status, text] of [
        ["accounts", { name: "mine" }, 409, /There is an account "mine" already/],
        ["accounts", { name: "No" }, 400, /3 to 24 lower-case/],
        ["accounts", { nane: "other" }, 400, /nane/],
        ["accounts", [], 400, /an object is expected/],
        ["reset", {}, 400, /account/],
        ["reset", { account: "none" }, 404, /There is no account "none"/],
      ] as const) {
        const answer = await post(url, path, body);
        assert.equal(answer.status, status, answer.text);
        assert.match(answer.text, text);
      }
      const fromPage = await post(url, "accounts", {}, { Origin: "http://evil.example" });
      assert.equal(fromPage.status, 403);
    } finally {
      server.signal("SIGTERM");
    }
    assert.equal(await server.exited, 0);
  });

  it("is the only one with these pages, and needs data in memory", async () => {
    const server = new RowhouseCommand([...flags, "--seed", folder]);
    try {
      const [, url = ""] = await server.until(LISTENING);
      for (const path of ["accounts", "reset"])
        assert.equal((await post(url, path, { account: "devstoreaccount1" })).status, 404);
    } finally {
      server.signal("SIGTERM");
    }
    assert.equal(await server.exited, 0);
    const refused = new RowhouseCommand(["--ci", "--location", join(folder, "data")]);
    assert.equal(await refused.exited, 2);
    assert.match(refused.stderr, /--ci lets anyone empty accounts, so it needs data in memory/);
  });
});

/** The file of a recipe, as the manual prints it. */
function recipe(file: string): string {
  const page = readFileSync(join(root, "docs/manual/testing.md"), "utf8");
  const [, code] = new RegExp(`<!-- ${file} -->\\s*\`\`\`js\\n([^]*?)\`\`\``).exec(page) ?? [];
  assert.ok(code, `The page has ${file}.`);
  return code;
}

describe("The recipe for node:test", () => {
  it("runs as the manual prints it", () => {
    const file = join(root, `.smoke-${process.pid}.mjs`);
    writeFileSync(file, recipe("films.test.mjs"));
    // Node's runner tells the tests that it starts not to print for people.
    const { NODE_TEST_CONTEXT: _, ...env } = process.env;
    try {
      const { status, stdout } = spawnSync(process.execPath, [...SOURCES, "--test", file], {
        cwd: root,
        encoding: "utf8",
        env,
      });
      assert.equal(status, 0, stdout);
      assert.match(stdout, /pass 1\b/);
    } finally {
      rmSync(file);
    }
  });
});

if (TRIES_ALL) {
  describe("The recipes of the manual", () => {
    let packages: Packed;
    const project = new EmptyFolder();
    before(async () => {
      packages = await packed();
      const { devDependencies } = JSON.parse(readFileSync(join(root, "package.json"), "utf8"));
      const client = `@azure/data-tables@${devDependencies["@azure/data-tables"]}`;
      await project.install(packages.rowhouse.tarball, client, "jest@30.5.2", "vitest@3.2.4");
    });
    after(() => {
      packages.remove();
      project.remove();
    });

    for (const [runner, file, command] of [
      ["node:test", "films.test.mjs", ["node", "--test", "films.test.mjs"]],
      ["Vitest", "films.spec.mjs", ["npx", "vitest", "run", "films.spec.mjs"]],
      ["Jest", "films.test.js", ["npx", "jest", "--testMatch", "**/films.test.js"]],
    ] as const) {
      it(`run in ${runner}`, async () => {
        project.write(file, recipe(file));
        const [program, ...args] = command;
        await project.run(program, args);
      });
    }
  });
}
