/** The body of a request, however it arrives. */
export interface BodySource {
  /** Length of the body; undefined for a chunked one, whose length is known only at its end. */
  readonly bytes: number | undefined;
  /**
   * The whole body, or `undefined` as soon as more than `bytesMax` are announced or have arrived. The caller
   * may then call again with a larger `bytesMax`. Synchronous when the bytes are already here.
   * @throws BodyAborted when the client goes away before the end.
   */
  read(bytesMax: number): Uint8Array | undefined | Promise<Uint8Array | undefined>;
  /**
   * Reads the next bytes of the body into `memory`, for content too large to hold. The body owns the memory
   * until this returns or resolves. Calls may overlap and are filled in order, so that arriving bytes never
   * wait for their reader.
   * @returns how many bytes were read: fewer than `memory` holds only at the end of the body
   * @throws BodyAborted when the client goes away before the end.
   */
  fill(memory: Uint8Array): number | Promise<number>;
  /**
   * Counts memory that its reader holds for this body until the answer; `read` counts its own.
   * @throws ServiceError ServerBusy when there is no room for more.
   */
  reserve(bytes: number): void;
}

/** The client left before its request was whole, so no answer can be sent. */
export class BodyAborted extends Error {
  constructor() {
    super("The client closed the connection before its request body was complete.");
    this.name = "BodyAborted";
  }
}
