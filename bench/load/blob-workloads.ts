import type { SharedKeyWriter } from "./shared-key-writer.ts";
import type { Client, LoadRequest, Workload } from "./workload.ts";

/** Each client repeatedly puts its own blob. */
export function createUpload(writer: SharedKeyWriter, container: string, bytes: number): Workload {
  const body = bytesOf(bytes);
  return {
    request: ({ index }) => upload(writer, `/${container}/upload-${index}`, body),
    answered: (_client, { status }) => (status === 201 ? "done" : "failed"),
  };
}

/** Puts the same bytes as blocks, one after the other, then commits the block list. */
export function createBlockUpload(
  writer: SharedKeyWriter,
  container: string,
  blocks: number,
  blockBytes: number,
): Workload {
  const body = bytesOf(blockBytes);
  const ids = Array.from({ length: blocks }, (_, index) =>
    Buffer.from(String(index).padStart(3, "0")).toString("base64"),
  );
  const list = `<BlockList>${ids.map((id) => `<Latest>${id}</Latest>`).join("")}</BlockList>`;
  return {
    request({ index, pending }) {
      const path = `/${container}/blocks-${index}`;
      const id = ids[Number(pending)];
      if (id === undefined) {
        const query = [["comp", "blocklist"]] as const;
        return writer.write("PUT", path, { query, bodyBytes: list.length }) + list;
      }
      const query = [
        ["blockid", id],
        ["comp", "block"],
      ] as const;
      return { head: writer.write("PUT", path, { query, bodyBytes: body.length }), body };
    },
    answered(client, { status }) {
      const sent = Number(client.pending) + 1;
      const isGood = status === 201;
      client.pending = isGood && sent <= blocks ? String(sent) : "";
      return isGood ? (sent <= blocks ? "again" : "done") : "failed";
    },
  };
}

/** All clients read one blob; a client that finds it missing puts it. */
export function createDownload(
  writer: SharedKeyWriter,
  container: string,
  bytes: number,
): Workload {
  const path = `/${container}/download`;
  return {
    request: ({ pending }) =>
      pending === "missing" ? upload(writer, path, bytesOf(bytes)) : writer.write("GET", path),
    answered(client, { bodyBytes, status }) {
      client.pending = status === 404 ? "missing" : "";
      if (status === 404 || status === 201) return "again";
      return status === 200 && bodyBytes === bytes ? "done" : "failed";
    },
  };
}

function upload(writer: SharedKeyWriter, path: string, body: Buffer): LoadRequest {
  const head = writer.write("PUT", path, {
    blobType: "BlockBlob",
    contentType: "application/octet-stream",
    bodyBytes: body.length,
  });
  return { head, body };
}

/** Bytes that do not repeat, in case a disk or a network compresses. */
function bytesOf(count: number): Buffer {
  const words = new Uint32Array(count / 4);
  let word = 1;
  for (let i = 0; i < words.length; i++) {
    word ^= word << 13;
    word ^= word >>> 17;
    word ^= word << 5;
    words[i] = word;
  }
  return Buffer.from(words.buffer);
}

/**
 * Appends blocks of 4 KiB to this many append blobs, which the clients share. Each run creates new blobs,
 * because one holds at most 50,000 blocks.
 */
export function createAppend(writer: SharedKeyWriter, container: string, blobs: number): Workload {
  const block = "a line of a log, which is written and never changed again ......\n"
    .repeat(64)
    .slice(0, BLOCK_BYTES);
  return {
    request(client) {
      const path = `/${container}/log-${client.run}-${client.index % blobs}`;
      if (client.pending === "") {
        return writer.write("PUT", path, { blobType: "AppendBlob", ifNoneMatch: "*" });
      }
      const append = { query: APPEND, contentType: "text/plain", bodyBytes: block.length };
      return writer.write("PUT", path, append) + block;
    },
    answered(client: Client, { status }) {
      if (client.pending === "") {
        client.pending = "created";
        // Another client created it first, which is as good.
        return status === 201 || status === 409 ? "again" : "failed";
      }
      return status === 201 ? "done" : "failed";
    },
  };
}

const APPEND = [["comp", "appendblock"]] as const;

/** Bytes of one append. */
export const BLOCK_BYTES = 4096;
