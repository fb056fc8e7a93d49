/** Whether a server that listens on this host is reached from this machine only. */
export function reachesThisMachineOnly(host: string): boolean {
  return host === "localhost" || host === "::1" || /^127(\.\d{1,3}){3}$/.test(host);
}
