/** The services, in the order of their ports. */
export const SERVICE_NAMES = ["blob", "queue", "table"] as const;
export type ServiceName = (typeof SERVICE_NAMES)[number];
