import { createHmac } from "node:crypto";
import { connect } from "node:net";
import {
  ACCEPT_AND_CONTENT,
  PREFER_NO_CONTENT,
  RequestWriter,
  type Target,
} from "../load/request-writer.ts";
import { ResponseReader } from "../load/response-reader.ts";
import { SharedKeyWriter } from "../load/shared-key-writer.ts";

/** Sends one request on its own connection: for setup, never for measuring. */
export function exchange(
  target: Target,
  request: string,
): Promise<{ status: number; body: string }> {
  return new Promise((resolve, reject) => {
    const reader = new ResponseReader();
    reader.keepsBodies = true;
    const socket = connect(target.port, target.host, () => socket.write(request, "latin1"));
    socket.on("error", reject);
    socket.on("close", () => reject(new Error("The server hung up.")));
    socket.on("data", (bytes) => {
      if (!reader.read(bytes)) return;
      resolve({ status: reader.status, body: Buffer.concat(reader.body).toString() });
      socket.destroy();
    });
  });
}

/** Creates a table, queue or container. */
export async function create(target: Target, name: string): Promise<void> {
  const { body, status } = await exchange(target, creation(target, name));
  if (status !== 204 && status !== 201) {
    throw new Error(`Creating the ${target.service} ${name} was answered ${status}: ${body}`);
  }
}

function creation(target: Target, name: string): string {
  switch (target.service) {
    case "table":
      return new RequestWriter(target).write("POST", "/Tables", {
        headers: ACCEPT_AND_CONTENT + PREFER_NO_CONTENT,
        body: `{"TableName":"${name}"}`,
      });
    case "queue":
      return new SharedKeyWriter(target).write("PUT", `/${name}`);
    case "blob": {
      const query = [["restype", "container"]] as const;
      return new SharedKeyWriter(target).write("PUT", `/${name}`, { query });
    }
  }
}

/** Whether the server already answers signed requests. */
export async function isReady(target: Target): Promise<boolean> {
  try {
    const request =
      target.service === "table"
        ? new RequestWriter(target).write("GET", "/Tables")
        : new SharedKeyWriter(target).write("GET", "/", { query: [["comp", "list"]] });
    return (await exchange(target, request)).status === 200;
  } catch {
    return false;
  }
}

/** A token for every permission on one table, valid for a day. */
export function tableSas(target: Target, table: string): string {
  const version = "2019-02-02";
  const expiry = `${new Date(Date.now() + 86_400_000).toISOString().slice(0, 19)}Z`;
  const text = `raud\n\n${expiry}\n/table/${target.account}/${table.toLowerCase()}\n\n\n\n${version}\n\n\n\n`;
  const key = Buffer.from(target.keyBase64, "base64");
  const signature = createHmac("sha256", key).update(text).digest("base64");
  return new URLSearchParams({
    sv: version,
    tn: table,
    sp: "raud",
    se: expiry,
    sig: signature,
  }).toString();
}
