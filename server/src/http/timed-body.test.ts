import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { BLOCK, BlobLab } from "../blob/test-blob-lab.ts";

const SETTINGS = "<StorageServiceProperties />";
/** Too large for an engine value. */
const CONTENT = "x".repeat(200_000);

describe("A request with a timeout parameter", () => {
  /** A body whose last byte arrives 25 seconds after all others. */
  const late = (lab: BlobLab, body: string) => {
    async function* parts() {
      yield Buffer.from(body.slice(0, -1));
      lab.clock.ms += 25_000;
      yield Buffer.from(body.slice(-1));
    }
    return { stream: parts(), headers: { ...BLOCK, "Content-Length": String(body.length) } };
  };

  it("changes nothing if its body arrives after the timeout, whether the body is buffered or streamed", async () => {
    const lab = await BlobLab.open();
    await lab.must("PUT", "/docs?restype=container");
    await lab.put("/docs/a", { body: "before" });
    await lab.refused("500 OperationTimedOut", "PUT", "/docs/a?timeout=24", late(lab, CONTENT));
    assert.equal(String((await lab.must("GET", "/docs/a")).body), "before");
    await lab.assertTidy();
    const settings = "/?restype=service&comp=properties";
    await lab.refused(
      "500 OperationTimedOut",
      "PUT",
      `${settings}&timeout=24`,
      late(lab, SETTINGS),
    );
    await lab.close();
  });

  it("succeeds if its body arrives in time, or if the timeout is empty or zero", async () => {
    for (const timeout of ["?timeout=25", "?timeout=0", "?timeout=", ""]) {
      const lab = await BlobLab.open();
      await lab.must("PUT", "/docs?restype=container");
      await lab.must("PUT", `/docs/a${timeout}`, late(lab, CONTENT));
      assert.equal((await lab.must("GET", "/docs/a")).body.length, CONTENT.length);
      await lab.close();
    }
  });

  it("may name any whole number of seconds, and nothing else", async () => {
    const lab = await BlobLab.open();
    await lab.must("PUT", "/docs?restype=container");
    for (const timeout of ["999999999", "9999999999", "9".repeat(400)]) {
      await lab.must("PUT", `/docs/a?timeout=${timeout}`, late(lab, CONTENT));
    }
    for (const timeout of ["soon", "-1", "1.5", "1e3", "+1", "%201"]) {
      const path = `/docs/a?timeout=${timeout}`;
      await lab.refused("400 InvalidQueryParameterValue", "PUT", path, late(lab, CONTENT));
    }
    await lab.close();
  });
});
