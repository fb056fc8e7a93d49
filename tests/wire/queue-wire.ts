import { StorageWire } from "./storage-wire.ts";

export { KEY, sign, stringToSign, VERSION } from "./storage-wire.ts";

/** A raw client of the Queue service. */
export class QueueWire extends StorageWire {
  constructor(url: string) {
    super(url, "application/xml");
  }
}
