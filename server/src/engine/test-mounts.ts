import { spawnSync } from "node:child_process";

/** Whether tests may mount disks of their own, which not every system allows every user. */
export function hasMounts(): boolean {
  return spawnSync("unshare", ["--map-root-user", "--mount", "true"]).status === 0;
}
