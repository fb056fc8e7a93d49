import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { Identity, SasKeyRange } from "../wire/identity.ts";
import type { Access } from "../wire/operation.ts";
import { authorize, permitsKey, permitsTable, refuseAnonymous } from "./authorize.ts";
import { blobAuth, queueAuth, tableAuth } from "./dialect.ts";
import { type RequestSketch, refusalOf, sketchRequest } from "./test-request.ts";

const CREATE_TABLE: Access = {
  resourceType: "c",
  accountSas: ["c", "w"],
  serviceSas: [],
  bearer: "write",
};
const LIST_TABLES: Access = {
  resourceType: "sc",
  accountSas: ["l"],
  serviceSas: [],
  bearer: "read",
};
const TABLE_ACL: Access = { resourceType: "c", accountSas: [], serviceSas: [], bearer: "never" };
const QUERY: Access = { resourceType: "o", accountSas: ["r"], serviceSas: ["r"], bearer: "read" };
const UPSERT: Access = {
  resourceType: "o",
  accountSas: ["au"],
  serviceSas: ["au"],
  bearer: "write",
};
const BATCH: Access = { resourceType: "o", accountSas: [""], serviceSas: [""], bearer: "read" };
const GET_BLOB: Access = { ...QUERY, anonymous: true };

const TEXTS = {
  AuthorizationFailure: "This request is not authorized to perform this operation.",
  AuthorizationServiceMismatch:
    "This request is not authorized to perform this operation using this service.",
  AuthorizationResourceTypeMismatch:
    "This request is not authorized to perform this operation using this resource type.",
  AuthorizationPermissionMismatch:
    "This request is not authorized to perform this operation using this permission.",
};

describe("a shared key", () => {
  it("permits every operation", () => {
    for (const access of [CREATE_TABLE, LIST_TABLES, TABLE_ACL, QUERY, UPSERT, BATCH]) {
      allow({ kind: "shared-key" }, access);
    }
  });
});

describe("an account SAS", () => {
  const sas = (services: string, resourceTypes: string, permissions: string): Identity => ({
    kind: "account-sas",
    services,
    resourceTypes,
    permissions,
  });

  it("permits an operation when it has the resource type and all permissions of one alternative", () => {
    allow(sas("t", "c", "w"), CREATE_TABLE);
    allow(sas("bqt", "sco", "rwdlacu"), CREATE_TABLE);
    allow(sas("t", "s", "l"), LIST_TABLES);
    allow(sas("t", "c", "l"), LIST_TABLES);
    allow(sas("t", "o", "ua"), UPSERT);
    allow(sas("t", "o", "x"), BATCH);
  });

  it("is checked for the service, then SAS access, the resource type and the permission", () => {
    deny(sas("bq", "s", "d"), TABLE_ACL, "AuthorizationServiceMismatch");
    deny(sas("t", "s", "d"), TABLE_ACL, "AuthorizationFailure");
    deny(sas("t", "s", "d"), CREATE_TABLE, "AuthorizationResourceTypeMismatch");
    deny(sas("t", "c", "d"), CREATE_TABLE, "AuthorizationPermissionMismatch");
    deny(sas("t", "o", "c"), LIST_TABLES, "AuthorizationResourceTypeMismatch");
  });

  it("with only some permissions of an alternative is refused", () => {
    deny(sas("t", "o", "a"), UPSERT, "AuthorizationPermissionMismatch");
    deny(sas("t", "o", "u"), UPSERT, "AuthorizationPermissionMismatch");
  });

  it("permits only the services it lists", () => {
    const head = sketchRequest("GET /x");
    for (const [letter, dialect] of [
      ["t", tableAuth],
      ["q", queueAuth],
      ["b", blobAuth],
    ] as const) {
      authorize(head, sas(letter, "o", "r"), QUERY, dialect);
      const others = "btq".replace(letter, "");
      const error = refusalOf(() => authorize(head, sas(others, "o", "r"), QUERY, dialect));
      assert.equal(error.code, "AuthorizationServiceMismatch");
    }
  });
});

describe("a service SAS", () => {
  it("permits an operation when it has all permissions of one alternative", () => {
    allow(serviceSas("raud"), QUERY);
    allow(serviceSas("ua"), UPSERT);
    allow(serviceSas("d"), BATCH);
    deny(serviceSas("aud"), QUERY, "AuthorizationPermissionMismatch");
    deny(serviceSas("a"), UPSERT, "AuthorizationPermissionMismatch");
  });

  it("never permits operations on tables themselves", () => {
    for (const access of [CREATE_TABLE, LIST_TABLES, TABLE_ACL]) {
      deny(serviceSas("raud"), access, "AuthorizationFailure");
    }
  });

  it("without the permission is refused by queues and blobs as a permission mismatch in every version", () => {
    const head = sketchRequest("GET /x", { headers: { "x-ms-version": "2015-02-21" } });
    for (const dialect of [queueAuth, blobAuth]) {
      const error = refusalOf(() => authorize(head, serviceSas("a"), QUERY, dialect));
      assert.equal(error.code, "AuthorizationPermissionMismatch");
    }
  });

  it("without the permission is refused by tables as ResourceNotFound before version 2015-04-05", () => {
    const oldHeader = { headers: { "x-ms-version": "2015-02-21" } };
    const newHeader = { headers: { "x-ms-version": "2015-04-05" } };
    assert.equal(denied(serviceSas("a"), QUERY, oldHeader, "GET /x").status, 404);
    assert.equal(
      denied(serviceSas("a"), QUERY, {}, "GET /x?sv=2014-02-14").code,
      "ResourceNotFound",
    );
    const line = "GET /x?sv=2014-02-14";
    assert.equal(
      denied(serviceSas("a"), QUERY, newHeader, line).code,
      "AuthorizationPermissionMismatch",
    );
    assert.equal(
      denied(serviceSas("a"), QUERY, {}, `${line}&api-version=2019-02-02`).code,
      "AuthorizationPermissionMismatch",
    );
  });
});

describe("a bearer token", () => {
  const bearer = (role: "reader" | "contributor" | "none"): Identity => ({
    kind: "bearer",
    role,
    subject: "ann",
  });

  it("of a reader permits reads only", () => {
    allow(bearer("reader"), QUERY);
    deny(bearer("reader"), UPSERT, "AuthorizationPermissionMismatch");
  });

  it("of a contributor permits reads and writes", () => {
    allow(bearer("contributor"), QUERY);
    allow(bearer("contributor"), UPSERT);
  });

  it("without a role permits nothing", () => {
    deny(bearer("none"), QUERY, "AuthorizationPermissionMismatch");
  });

  it("gets ResourceNotFound for access policies, in every role", () => {
    for (const role of ["reader", "contributor", "none"] as const) {
      const error = denied(bearer(role), TABLE_ACL);
      assert.deepEqual([error.code, error.status], ["ResourceNotFound", 404]);
    }
  });
});

describe("an anonymous caller", () => {
  it("may call operations that allow anonymous access", () => {
    allow({ kind: "anonymous" }, GET_BLOB);
  });

  it("gets ResourceNotFound for any other read, whether the resource exists or not", () => {
    for (const verb of ["GET", "HEAD"]) {
      const error = denied({ kind: "anonymous" }, QUERY, {}, `${verb} /x`);
      assert.deepEqual([error.code, error.status], ["ResourceNotFound", 404]);
      assert.equal(refuseAnonymous(verb).code, "ResourceNotFound");
    }
  });

  it("is asked for credentials when writing", () => {
    const error = denied({ kind: "anonymous" }, UPSERT, {}, "PUT /x");
    assert.deepEqual([error.code, error.status], ["NoAuthenticationInformation", 401]);
    assert.deepEqual(error.headers, [["WWW-Authenticate", "SharedKey"]]);
  });
});

describe("the secondary endpoint", () => {
  it("is read-only for every kind of caller", () => {
    const identities: Identity[] = [{ kind: "shared-key" }, serviceSas("raud")];
    for (const identity of identities) {
      for (const verb of ["POST", "PUT", "DELETE", "MERGE", "PATCH"]) {
        const error = denied(identity, UPSERT, { secondary: true }, `${verb} /x`);
        assert.equal(error.code, "InsufficientAccountPermissions");
        assert.equal(error.status, 403);
        assert.equal(error.message, "Write operations are not allowed.");
      }
      for (const verb of ["GET", "HEAD"]) {
        authorize(sketchRequest(`${verb} /x`, { secondary: true }), identity, QUERY, tableAuth);
      }
    }
  });

  it("refuses GET operations that change something", () => {
    const dequeue: Access = { ...QUERY, bearer: "write" };
    const error = denied({ kind: "shared-key" }, dequeue, { secondary: true });
    assert.equal(error.code, "InsufficientAccountPermissions");
  });
});

describe("a table SAS with a key range", () => {
  const cases: [string, Partial<SasKeyRange>, inside: string, outside: string][] = [
    ["from a partition", { startPartitionKey: "b" }, "b/ b/z c/", "a/ a/z /"],
    ["from a row", { startPartitionKey: "b", startRowKey: "5" }, "b/5 b/6 c/ c/1", "b/4 b/ a/9"],
    ["to a partition", { endPartitionKey: "b" }, "a/ b/ b/z", "b\u0000/ c/"],
    ["to a row", { endPartitionKey: "b", endRowKey: "5" }, "a/9 b/ b/5", "b/50 b/6 c/"],
    [
      "from row to row",
      { startPartitionKey: "a", startRowKey: "1", endPartitionKey: "b", endRowKey: "9" },
      "a/1 a/2 aa/ b/ b/9",
      "a/0 b/91 z/1",
    ],
    [
      "of the empty partition",
      { startPartitionKey: "", startRowKey: "5", endPartitionKey: "", endRowKey: "6" },
      "/5 /6",
      "/4 a/5",
    ],
    [
      "in the order of UTF-16 code units",
      { startPartitionKey: "𝒳", endPartitionKey: "\uff00" },
      "𝒳/ \uff00/",
      "é/ \uffff/",
    ],
  ];
  for (const [title, range, inside, outside] of cases) {
    it(`reaches exactly the entities ${title}`, () => {
      const keyRange = {
        startPartitionKey: undefined,
        startRowKey: undefined,
        endPartitionKey: undefined,
        endRowKey: undefined,
        ...range,
      };
      const reaches = (key: string) => {
        const [partitionKey, rowKey] = key.split("/");
        return permitsKey(serviceSas("r", keyRange), partitionKey!, rowKey!);
      };
      for (const key of inside.split(" ")) assert.ok(reaches(key), `${key} is inside`);
      for (const key of outside.split(" ")) assert.ok(!reaches(key), `${key} is outside`);
    });
  }

  it("does not restrict callers without one", () => {
    assert.ok(permitsKey(serviceSas("r"), "any", "key"));
    assert.ok(permitsKey({ kind: "shared-key" }, "any", "key"));
  });
});

describe("the table of a table SAS", () => {
  it("is compared ignoring case", () => {
    assert.ok(permitsTable(serviceSas("r"), "PEOPLE"));
    assert.ok(!permitsTable(serviceSas("r"), "Peoples"));
    assert.ok(permitsTable({ kind: "shared-key" }, "Peoples"));
  });
});

function serviceSas(permissions: string, keyRange?: SasKeyRange): Identity {
  return { kind: "service-sas", permissions, table: "people", keyRange, responseHeaders: [] };
}

function allow(identity: Identity, access: Access): void {
  authorize(sketchRequest("GET /x"), identity, access, tableAuth);
}

function denied(identity: Identity, access: Access, sketch: RequestSketch = {}, line = "GET /x") {
  return refusalOf(() => authorize(sketchRequest(line, sketch), identity, access, tableAuth));
}

function deny(identity: Identity, access: Access, code: keyof typeof TEXTS): void {
  const error = denied(identity, access);
  assert.deepEqual(
    [error.code, error.status, error.message, error.stage],
    [code, 403, TEXTS[code], undefined],
  );
}
