import { createHmac } from "node:crypto";
import { connect } from "node:net";
import {
  ACCEPT_AND_CONTENT,
  PREFER_NO_CONTENT,
  RequestWriter,
  type Target,
} from "../load/request-writer.ts";
import { ResponseReader } from "../load/response-reader.ts";

/** One request on a connection of its own: for setting up, never for measuring. */
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

export async function createTable(target: Target, table: string): Promise<void> {
  const request = new RequestWriter(target).write("POST", "/Tables", {
    headers: ACCEPT_AND_CONTENT + PREFER_NO_CONTENT,
    body: `{"TableName":"${table}"}`,
  });
  const { body, status } = await exchange(target, request);
  if (status !== 204) throw new Error(`Creating table ${table} was answered ${status}: ${body}`);
}

/** Whether the server answers signed requests yet. */
export async function isReady(target: Target): Promise<boolean> {
  try {
    const request = new RequestWriter(target).write("GET", "/Tables");
    return (await exchange(target, request)).status === 200;
  } catch {
    return false;
  }
}

/** A token for everything in one table, valid for a day. */
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
