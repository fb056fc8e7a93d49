import { printLeaf } from "../xml/print-xml.ts";
import { isLocked, type Lease, leaseDuration, leaseState } from "./lease.ts";

/** A lease as listings print it. */
export function printLease(lease: Lease | undefined, now: number): string {
  const state = leaseState(lease, now);
  return (
    printLeaf("LeaseStatus", isLocked(state) ? "locked" : "unlocked") +
    printLeaf("LeaseState", state) +
    (state === "leased" ? printLeaf("LeaseDuration", leaseDuration(lease!)) : "")
  );
}
