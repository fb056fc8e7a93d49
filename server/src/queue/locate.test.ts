import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { refusalOf, sketchRequest } from "../auth/test-request.ts";
import { Query } from "../wire/query.ts";
import { locateQueue, PEEK, queueMethodOf } from "./locate.ts";

describe("A path below the account", () => {
  it("names the account, its service, a queue, its messages or one of them", () => {
    check("", { resource: "account", name: "" });
    check("/", { resource: "account", name: "" });
    check("/?ReSType=SERVICE", { resource: "service", name: "" });
    check("/orders", { resource: "queue", name: "orders" });
    check("/orders/?restype=service", { resource: "queue", name: "orders" });
    check("/orders/messages", { resource: "messages", name: "orders" });
    check("/orders/MESSAGES/", { resource: "messages", name: "orders" });
    check("/o%72ders/%6dessages/a%2Fb", { resource: "message", name: "orders", item: "a/b" });
  });

  it("is rejected if a segment is empty, unknown or superfluous", () => {
    for (const path of ["//", "//messages", "/orders/blobs", "/orders/messages/1/2", "/a//b"]) {
      assert.equal(refusalOf(() => locate(path)).code, "InvalidUri", path);
    }
  });
});

describe("The method of a request", () => {
  it("is GET for a HEAD of a queue", () => {
    assert.equal(methodOf("HEAD", "/orders"), "GET");
    assert.equal(methodOf("HEAD", "/orders/messages"), "HEAD");
    assert.equal(methodOf("HEAD", "/"), "HEAD");
  });

  it("is PEEK for a GET of messages with peekonly=true", () => {
    assert.equal(methodOf("GET", "/orders/messages"), "GET");
    assert.equal(methodOf("GET", "/orders/messages?peekonly=False"), "GET");
    assert.equal(methodOf("GET", "/orders/messages?PeekOnly=TRUE"), PEEK);
    assert.equal(methodOf("DELETE", "/orders/messages?peekonly=true"), "DELETE");
    const { code, details } = refusalOf(() => methodOf("GET", "/orders/messages?peekonly=1"));
    assert.equal(code, "InvalidQueryParameterValue");
    assert.deepEqual(details[0], ["QueryParameterName", "peekonly"]);
  });
});

function locate(target: string) {
  const [path = "", query = ""] = target.split("?");
  return locateQueue(path, new Query(query));
}

function check(target: string, expected: object): void {
  assert.deepEqual(locate(target), expected);
}

function methodOf(verb: string, target: string): string {
  return queueMethodOf(sketchRequest(`${verb} ${target}`, { location: locate(target) }));
}
