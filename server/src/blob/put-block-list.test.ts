import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import { BlobLab } from "./test-blob-lab.ts";

let lab: BlobLab;

before(async () => {
  lab = await BlobLab.open();
  await lab.must("PUT", "/docs?restype=container");
});
after(() => lab.close());

describe("Put Block and Put Block List", () => {
  it("build content in the order of the list, from committed or uncommitted blocks as it says", async () => {
    await putBlock("b", "AAAA", "1");
    await putBlock("b", "BBBB", "2");
    await putList("b", "<Latest>BBBB</Latest><Uncommitted>AAAA</Uncommitted>");
    assert.equal(await textOf("b"), "21");
    await putBlock("b", "AAAA", "new");
    await putList("b", "<Committed>AAAA</Committed><Latest>AAAA</Latest><Latest>BBBB</Latest>");
    assert.equal(await textOf("b"), "1new2");
    await refusedList("400 InvalidBlockList", "b", "<Uncommitted>BBBB</Uncommitted>");
    await putBlock("b", "CCCC", "3");
    await refusedList("400 InvalidBlockList", "b", "<Committed>CCCC</Committed>");
    await putList("b", "<Uncommitted>CCCC</Uncommitted>\n <Committed> BBBB </Committed>");
    assert.equal(await textOf("b"), "32");
    const list = (await lab.must("GET", "/docs/b?comp=blocklist&blocklisttype=all")).body;
    assert.equal(
      list.toString(),
      '\ufeff<?xml version="1.0" encoding="utf-8"?><BlockList><CommittedBlocks><Block><Name>CCCC</Name><Size>1</Size></Block><Block><Name>BBBB</Name><Size>1</Size></Block></CommittedBlocks><UncommittedBlocks /></BlockList>',
    );
    await lab.assertTidy();
  });

  it("change nothing if a block is missing", async () => {
    await putBlock("kept", "AAAA", "1");
    await refusedList("400 InvalidBlockList", "kept", "<Latest>AAAA</Latest><Latest>ZZZZ</Latest>");
    await lab.refused("404 BlobNotFound", "GET", "/docs/kept");
    await putList("kept", "<Latest>AAAA</Latest>");
  });

  it("refuse malformed and oversized lists", async () => {
    for (const [body, expected] of [
      ["", "400 InvalidXmlDocument"],
      ["<BlockList>", "400 InvalidXmlDocument"],
      ["<Blocks />", "400 InvalidXmlDocument"],
      ["<BlockList><Block>AAAA</Block></BlockList>", "400 InvalidXmlDocument"],
      ["<BlockList>text</BlockList>", "400 InvalidXmlDocument"],
      ["<!DOCTYPE a><BlockList />", "400 InvalidXmlDocument"],
    ] as const) {
      await lab.refused(expected, "PUT", "/docs/nolist?comp=blocklist", { body });
    }
    const headers = { "Content-MD5": "AAAAAAAAAAAAAAAAAAAAAA==" };
    const body = "<BlockList />";
    await lab.refused("400 Md5Mismatch", "PUT", "/docs/nolist?comp=blocklist", { body, headers });
    await lab.refused("413 RequestBodyTooLarge", "PUT", "/docs/nolist?comp=blocklist", {
      headers: { "Content-Length": "9000000" },
    });
  });

  it("refuse invalid blocks, and blocks of an append blob", async () => {
    const path = "/docs/b?comp=block";
    await lab.refused("400 MissingRequiredQueryParameter", "PUT", path, { body: "x" });
    await lab.refused("400 InvalidQueryParameterValue", "PUT", `${path}&blockid=AAA`, {
      body: "x",
    });
    await lab.refused("400 InvalidHeaderValue", "PUT", `${path}&blockid=AAAA`);
    await putBlock("b", "AAAA", "x");
    await lab.refused("400 InvalidBlobOrBlock", "PUT", `${path}&blockid=AAAAAA==`, { body: "x" });
    await lab.refused("413 RequestBodyTooLarge", "PUT", `${path}&blockid=AAAA`, {
      headers: { "Content-Length": "4194304001" },
    });
    await lab.must("PUT", "/docs/log", { headers: { "x-ms-blob-type": "AppendBlob" } });
    await lab.refused("409 InvalidBlobType", "PUT", "/docs/log?comp=block&blockid=AAAA", {
      body: "x",
    });
    await refusedList("409 InvalidBlobType", "log", "");
    await lab.refused("409 InvalidBlobType", "GET", "/docs/log?comp=blocklist");
  });

  it("remove an expired lease, as every write does", async () => {
    const id = { "x-ms-lease-id": "c9da6455-213d-42c9-9a79-3e9149a57833" };
    const lease = (headers: Record<string, string>) =>
      lab.must("PUT", "/docs/held?comp=lease", { headers });
    await lab.put("/docs/held", { body: "x" });
    const { headers: before } = await lab.must("HEAD", "/docs/held");
    // On a blob without a draft, and on one that has one.
    for (const block of ["AAAA", "BBBB"]) {
      await lease({
        "x-ms-lease-action": "acquire",
        "x-ms-lease-duration": "15",
        "x-ms-proposed-lease-id": id["x-ms-lease-id"],
      });
      lab.clock.ms += 15_000;
      await putBlock("held", block, "x");
      const { headers } = await lab.must("HEAD", "/docs/held");
      assert.equal(headers.get("x-ms-lease-state"), "available");
      assert.equal(headers.get("etag"), before.get("etag"));
      await lab.refused("409 LeaseIdMismatchWithLeaseOperation", "PUT", "/docs/held?comp=lease", {
        headers: { "x-ms-lease-action": "renew", ...id },
      });
    }
    await putList("held", "<Latest>AAAA</Latest><Latest>BBBB</Latest>");
    assert.equal(await textOf("held"), "xx");
    await lab.assertTidy();
  });

  it("store every acknowledged block of concurrent uploads", async () => {
    const ids = Array.from({ length: 100 }, (_, i) => Buffer.from([0, 0, i]).toString("base64"));
    await Promise.all(ids.map((id, i) => putBlock("many", id, String.fromCharCode(33 + i))));
    await putList("many", ids.map((id) => `<Latest>${id}</Latest>`).join(""));
    const expected = ids.map((_, i) => String.fromCharCode(33 + i)).join("");
    assert.equal(await textOf("many"), expected);
    await lab.assertTidy();
  });

  it("drop a block that is put between the reading of a list without it and its commit", async () => {
    await putBlock("before", "AAAA", "1");
    beforeNextCommit(() => putBlock("before", "BBBB", "2"));
    await putList("before", "<Latest>AAAA</Latest>");
    assert.equal(await textOf("before"), "1");
    assert.match(await blocksOf("before"), /<UncommittedBlocks \/>/);
    await refusedList("400 InvalidBlockList", "before", "<Uncommitted>BBBB</Uncommitted>");
    await lab.assertTidy();
  });

  it("keep a block that commits after a list without it", async () => {
    await putBlock("after", "AAAA", "1");
    beforeNextCommit(() => putList("after", "<Latest>AAAA</Latest>"));
    await putBlock("after", "BBBB", "2");
    assert.equal(await textOf("after"), "1");
    const uncommitted = "<UncommittedBlocks><Block><Name>BBBB</Name><Size>1</Size></Block></";
    assert.ok((await blocksOf("after")).includes(uncommitted));
    await putList("after", "<Committed>AAAA</Committed><Uncommitted>BBBB</Uncommitted>");
    assert.equal(await textOf("after"), "12");
    await lab.assertTidy();
  });

  it("read the blocks again if another server replaces one meanwhile", async () => {
    const { clock, engine, contentStore } = lab;
    const other = await BlobLab.open({ clock, engine, contentStore: contentStore! });
    const put = (by: BlobLab, fill: string) =>
      by.must("PUT", "/docs/r?comp=block&blockid=AAAA", { body: Buffer.alloc(200_000, fill) });
    await put(lab, "1");
    beforeNextCommit(() => put(other, "2"));
    const body = "<BlockList><Latest>AAAA</Latest></BlockList>";
    await lab.must("PUT", "/docs/r?comp=blocklist", { body });
    await other.service.collector.collect();
    const read = await lab.must("GET", "/docs/r");
    assert.ok(read.body.equals(Buffer.alloc(200_000, "2")));
    await other.close();
  });

  it("allow 50,000 blocks and no more", async () => {
    await putBlock("full", "AAAA", "x");
    const block = "<Latest>AAAA</Latest>";
    await refusedList("400 BlockListTooLong", "full", block.repeat(50_001));
    await putList("full", block.repeat(50_000));
    assert.equal((await lab.must("HEAD", "/docs/full")).headers.get("content-length"), "50000");
    const range = { Range: "bytes=49998-" };
    assert.equal((await lab.must("GET", "/docs/full", { headers: range })).body.toString(), "xx");
    await lab.must("DELETE", "/docs/full");
    await lab.assertTidy();
  });

  it("hide a blob of only uncommitted blocks from reads and changes, except Delete Blob", async () => {
    await putBlock("staged", "AAAA", "x");
    for (const [method, path] of [
      ["GET", "/docs/staged"],
      ["HEAD", "/docs/staged"],
      ["GET", "/docs/staged?comp=metadata"],
      ["PUT", "/docs/staged?comp=metadata"],
      ["PUT", "/docs/staged?comp=properties"],
    ] as const) {
      await lab.refused("404 BlobNotFound", method, path);
    }
    const headers = { "x-ms-lease-action": "acquire", "x-ms-lease-duration": "-1" };
    await lab.refused("404 BlobNotFound", "PUT", "/docs/staged?comp=lease", { headers });
    // A delete of one version of a blob must not delete blocks put after it.
    const condition = { headers: { "If-Match": '"0x8DECF31A2B4C6D1"' } };
    await lab.refused("412 ConditionNotMet", "DELETE", "/docs/staged", condition);
    await lab.must("DELETE", "/docs/staged");
    await lab.refused("404 BlobNotFound", "GET", "/docs/staged?comp=blocklist&blocklisttype=all");
  });

  it("set the properties in the list's headers, and clear those that are missing", async () => {
    await putBlock("props", "AAAA", "x");
    const headers = {
      "x-ms-blob-content-type": "text/css",
      "x-ms-blob-content-md5": "AAAAAAAAAAAAAAAAAAAAAA==",
      "x-ms-meta-a": "1",
      "Content-Type": "application/xml",
    };
    const body = "<BlockList><Latest>AAAA</Latest></BlockList>";
    await lab.must("PUT", "/docs/props?comp=blocklist", { headers, body });
    const first = (await lab.must("HEAD", "/docs/props")).headers;
    assert.equal(first.get("content-type"), "text/css");
    assert.equal(first.get("content-md5"), "AAAAAAAAAAAAAAAAAAAAAA==");
    lab.clock.ms += 5000;
    await lab.must("PUT", "/docs/props?comp=blocklist", { body });
    const second = (await lab.must("HEAD", "/docs/props")).headers;
    assert.equal(second.get("content-type"), "application/octet-stream");
    assert.equal(second.get("content-md5"), undefined);
    assert.equal(second.get("x-ms-meta-a"), undefined);
    assert.equal(second.get("x-ms-creation-time"), first.get("x-ms-creation-time"));
    assert.notEqual(second.get("last-modified"), first.get("last-modified"));
    await lab.put("/docs/props");
    const third = (await lab.must("HEAD", "/docs/props")).headers;
    assert.notEqual(third.get("x-ms-creation-time"), first.get("x-ms-creation-time"));
  });
});

async function putBlock(name: string, id: string, body: string): Promise<void> {
  const path = `/docs/${name}?comp=block&blockid=${encodeURIComponent(id)}`;
  await lab.must("PUT", path, { body });
}

/** Runs a whole request just before the first commit of the next one. */
function beforeNextCommit(step: () => Promise<unknown>): void {
  const { engine } = lab;
  const commit = engine.commit.bind(engine);
  engine.commit = async (write) => {
    engine.commit = commit;
    await step();
    return commit(write);
  };
}

async function blocksOf(name: string): Promise<string> {
  return (await lab.must("GET", `/docs/${name}?comp=blocklist&blocklisttype=all`)).body.toString();
}

async function putList(name: string, blocks: string): Promise<void> {
  const body = `<BlockList>${blocks}</BlockList>`;
  await lab.must("PUT", `/docs/${name}?comp=blocklist`, { body });
}

async function refusedList(expected: string, name: string, blocks: string): Promise<void> {
  const body = `<BlockList>${blocks}</BlockList>`;
  await lab.refused(expected, "PUT", `/docs/${name}?comp=blocklist`, { body });
}

async function textOf(name: string): Promise<string> {
  return (await lab.must("GET", `/docs/${name}`)).body.toString();
}
