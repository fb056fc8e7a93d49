import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { printServiceStats } from "./service-stats.ts";

describe("Service statistics", () => {
  it("report a live secondary and the time of its last sync", () => {
    assert.equal(
      printServiceStats(Date.UTC(2020, 11, 18, 16, 58, 56)),
      '\ufeff<?xml version="1.0" encoding="utf-8"?><StorageServiceStats><GeoReplication>' +
        "<Status>live</Status><LastSyncTime>Fri, 18 Dec 2020 16:58:56 GMT</LastSyncTime>" +
        "</GeoReplication></StorageServiceStats>",
    );
  });

  it("report a secondary that cannot answer without a time", () => {
    assert.match(
      printServiceStats(undefined),
      /<Status>unavailable<\/Status><LastSyncTime \/><\/GeoReplication>/,
    );
  });
});
