import assert from "node:assert/strict";
import { describe, it } from "node:test";
import fc from "fast-check";
import type { CorsRule } from "./cors-rules.ts";
import {
  BLOB_DOCUMENTS,
  type DocumentRules,
  QUEUE_DOCUMENTS,
  TABLE_DOCUMENTS,
} from "./document-rules.ts";
import { parseServiceProperties } from "./parse-service-properties.ts";
import { printServiceProperties } from "./print-service-properties.ts";
import {
  decodeServiceProperties,
  defaultServiceProperties,
  encodeServiceProperties,
  type Metrics,
  type RetentionDays,
  type ServiceProperties,
} from "./service-properties.ts";

const DECLARATION = '<?xml version="1.0" encoding="utf-8"?>';
const NO_RETENTION = "<RetentionPolicy><Enabled>false</Enabled></RetentionPolicy>";
const NO_METRICS = `<Version>1.0</Version><Enabled>false</Enabled>${NO_RETENTION}`;
const LOGGING =
  "<Version>1.0</Version><Read>false</Read><Write>false</Write><Delete>false</Delete>";

describe("Default service properties", () => {
  it("of tables have hourly metrics for 7 days, and a byte order mark", () => {
    assert.equal(
      printServiceProperties(defaultServiceProperties(TABLE_DOCUMENTS), TABLE_DOCUMENTS),
      `\ufeff${DECLARATION}<StorageServiceProperties>` +
        `<Logging>${LOGGING}${NO_RETENTION}</Logging>` +
        "<HourMetrics><Version>1.0</Version><Enabled>true</Enabled><IncludeAPIs>true</IncludeAPIs>" +
        "<RetentionPolicy><Enabled>true</Enabled><Days>7</Days></RetentionPolicy></HourMetrics>" +
        `<MinuteMetrics>${NO_METRICS}</MinuteMetrics><Cors /></StorageServiceProperties>`,
    );
  });

  it("of queues have everything off", () => {
    assert.equal(
      printServiceProperties(defaultServiceProperties(QUEUE_DOCUMENTS), QUEUE_DOCUMENTS),
      `\ufeff${DECLARATION}<StorageServiceProperties>` +
        "<Logging><Version>1.0</Version><Delete>false</Delete><Read>false</Read>" +
        `<Write>false</Write>${NO_RETENTION}</Logging><HourMetrics>${NO_METRICS}</HourMetrics>` +
        `<MinuteMetrics>${NO_METRICS}</MinuteMetrics><Cors /></StorageServiceProperties>`,
    );
  });

  it("of blobs have everything off, also soft delete and the static website, and no default version", () => {
    assert.equal(
      printServiceProperties(defaultServiceProperties(BLOB_DOCUMENTS), BLOB_DOCUMENTS),
      `\ufeff${DECLARATION}<StorageServiceProperties>` +
        "<Logging><Version>1.0</Version><Delete>false</Delete><Read>false</Read>" +
        `<Write>false</Write>${NO_RETENTION}</Logging><HourMetrics>${NO_METRICS}</HourMetrics>` +
        `<MinuteMetrics>${NO_METRICS}</MinuteMetrics><Cors />` +
        "<DeleteRetentionPolicy><Enabled>false</Enabled></DeleteRetentionPolicy>" +
        "<StaticWebsite><Enabled>false</Enabled></StaticWebsite></StorageServiceProperties>",
    );
  });
});

describe("Setting service properties", () => {
  it("changes exactly the groups that are sent", () => {
    const change = parse(`<HourMetrics>${NO_METRICS}</HourMetrics>`);
    assert.deepEqual(change, { hourMetrics: { enabled: false, retentionDays: null } });
  });

  it("accepts groups and members in any order, separated by white space", () => {
    const change = parse(`
      <Cors></Cors>
      <Logging>
        <RetentionPolicy><Days>365</Days><Enabled>true</Enabled></RetentionPolicy>
        <Delete>true</Delete> <Write>false</Write> <Read>true</Read> <Version>1.0</Version>
      </Logging>`);
    assert.deepEqual(change, {
      cors: [],
      logging: { read: true, write: false, delete: true, retentionDays: 365 },
    });
  });

  it("accepts true and false in any case, as older Python clients send them", () => {
    const members =
      "<Version>1.0</Version><Delete>False</Delete><Read>True</Read><Write>FALSE</Write>" +
      "<RetentionPolicy><Enabled>False</Enabled></RetentionPolicy>";
    assert.deepEqual(parse(`<Logging>${members}</Logging>`), {
      logging: { read: true, write: false, delete: false, retentionDays: null },
    });
  });

  it("ignores the members of a disabled setting", () => {
    const retention = "<RetentionPolicy><Enabled>false</Enabled><Days>0</Days></RetentionPolicy>";
    const members = `<Version>1.0</Version><Enabled>false</Enabled><IncludeAPIs>true</IncludeAPIs>`;
    assert.deepEqual(parse(`<HourMetrics>${members}${retention}</HourMetrics>`), {
      hourMetrics: { enabled: false, retentionDays: null },
    });
  });

  it("splits the values of CORS rules at commas", () => {
    const rule =
      "<CorsRule><AllowedOrigins>http://a.example, http://b.example</AllowedOrigins>" +
      "<AllowedMethods>GET,PATCH</AllowedMethods><AllowedHeaders>x-ms-*,Accept</AllowedHeaders>" +
      "<ExposedHeaders /><MaxAgeInSeconds>60</MaxAgeInSeconds></CorsRule>";
    assert.deepEqual(parse(`<Cors>${rule}</Cors>`).cors, [
      {
        allowedOrigins: ["http://a.example", "http://b.example"],
        allowedMethods: ["GET", "PATCH"],
        allowedHeaders: ["x-ms-*", "Accept"],
        exposedHeaders: [],
        maxAgeSeconds: 60,
      },
    ]);
  });

  it("accepts blobs' default version and the documents of a disabled static website", () => {
    const change = parse(
      "<DefaultServiceVersion>2021-12-02</DefaultServiceVersion>" +
        "<StaticWebsite><Enabled>false</Enabled><IndexDocument>i.html</IndexDocument>" +
        "<ErrorDocument404Path>e/404.html</ErrorDocument404Path></StaticWebsite>",
      BLOB_DOCUMENTS,
    );
    assert.deepEqual(change, {
      defaultServiceVersion: "2021-12-02",
      staticWebsite: {
        enabled: false,
        indexDocument: "i.html",
        errorDocument404Path: "e/404.html",
      },
    });
  });

  it("is answered with NotImplemented when it enables soft delete or a static website", () => {
    for (const body of [
      "<DeleteRetentionPolicy><Enabled>true</Enabled><Days>7</Days></DeleteRetentionPolicy>",
      "<StaticWebsite><Enabled>true</Enabled></StaticWebsite>",
    ]) {
      assert.throws(() => parse(body, BLOB_DOCUMENTS), { code: "NotImplemented", status: 501 });
    }
  });

  it("accepts what the server printed, for every service", () => {
    fc.assert(
      fc.property(anyService, ({ rules, properties }) => {
        const printed = printServiceProperties(properties, rules);
        const change = parseServiceProperties(new TextEncoder().encode(printed), rules);
        assert.deepEqual(change, decodeServiceProperties(encodeServiceProperties(properties)));
      }),
    );
  });
});

describe("Service properties are refused", () => {
  const rule = (members: Record<string, string>) => {
    const all = {
      AllowedOrigins: "www.xyz.com",
      AllowedMethods: "GET",
      AllowedHeaders: "",
      ExposedHeaders: "",
      MaxAgeInSeconds: "0",
      ...members,
    };
    const printed = Object.entries(all).map(([name, text]) => `<${name}>${text}</${name}>`);
    return `<CorsRule>${printed.join("")}</CorsRule>`;
  };
  const cors = (...rules: string[]) => `<Cors>${rules.join("")}</Cors>`;
  const metrics = (members: string) => `<HourMetrics>${members}</HourMetrics>`;
  const days = (text: string) =>
    `<Logging>${LOGGING}<RetentionPolicy><Enabled>true</Enabled><Days>${text}</Days></RetentionPolicy></Logging>`;
  const list = (count: number, item = "x") => Array(count).fill(item).join(",");

  it("with more than five CORS rules", () => {
    assert.equal(parse(cors(...Array(5).fill(rule({})))).cors?.length, 5);
    for (const rules of SERVICES) {
      const six = cors(...Array(6).fill(rule({})));
      assertRefused(six, rules, "InvalidXmlDocument");
    }
  });

  it("as in the documentation's example with six CORS rules", () => {
    const one =
      "<CorsRule><AllowedOrigins>www.xyz.com</AllowedOrigins><AllowedMethods>GET</AllowedMethods>" +
      "<AllowedHeaders /><ExposedHeaders /><MaxAgeInSeconds>0</MaxAgeInSeconds></CorsRule>";
    const groups = cors(one, one, one, one, one, one);
    const document = `<StorageServiceProperties>${groups}</StorageServiceProperties>`;
    assert.equal(document.length, 1104);
    assertRefused(groups, TABLE_DOCUMENTS, "InvalidXmlDocument");
  });

  it("with too many, too long or invalid values in a CORS rule", () => {
    const long = "x".repeat(256);
    const fits: Record<string, string>[] = [
      { AllowedOrigins: list(64) },
      { AllowedHeaders: list(64) },
      { ExposedHeaders: `${list(2, "x*")},${list(64)}` },
      { AllowedOrigins: long },
      { MaxAgeInSeconds: "2147483647" },
    ];
    for (const members of fits) assert.equal(parse(cors(rule(members))).cors?.length, 1);
    const broken: Record<string, string>[] = [
      { AllowedOrigins: list(65) },
      { AllowedOrigins: "" },
      { AllowedOrigins: "a,,b" },
      { AllowedHeaders: list(65) },
      { ExposedHeaders: list(65) },
      { AllowedHeaders: list(3, "x*") },
      { AllowedOrigins: `${long}x` },
      { ExposedHeaders: "a&#10;b" },
      { AllowedMethods: "" },
      { AllowedMethods: "GET,TRACE" },
      { AllowedMethods: "get" },
      { MaxAgeInSeconds: "-1" },
      { MaxAgeInSeconds: "1.5" },
      { MaxAgeInSeconds: "" },
      { MaxAgeInSeconds: "2147483648" },
    ];
    for (const members of broken) {
      for (const rules of SERVICES) {
        assertRefused(cors(rule(members)), rules, "InvalidXmlNodeValue");
      }
    }
  });

  it("with more than 2 KiB of CORS rules, not counting the tags", () => {
    const origins = (bytes: number) => `${list(8, "x".repeat(250))},${"y".repeat(bytes - 2008)}`;
    const most = 2048 - "GET0".length;
    assert.equal(parse(cors(rule({ AllowedOrigins: origins(most) }))).cors?.length, 1);
    const over = cors(rule({ AllowedOrigins: origins(most + 1) }));
    for (const rules of SERVICES) assertRefused(over, rules, "InvalidXmlDocument");
    const half = rule({ AllowedOrigins: list(4, "x".repeat(255)) });
    for (const rules of SERVICES) assertRefused(cors(half, half), rules, "InvalidXmlDocument");
  });

  it("with a retention outside 1 to 365 days, with the service's own error code", () => {
    assert.equal(parse(days("1")).logging?.retentionDays, 1);
    assert.equal(parse(days("365")).logging?.retentionDays, 365);
    for (const text of ["0", "366", "-1", "x", ""]) {
      assertRefused(days(text), TABLE_DOCUMENTS, "InvalidXmlDocument");
    }
    const queueDays = days("366");
    assertRefused(queueDays, QUEUE_DOCUMENTS, "InvalidXmlNodeValue");
  });

  it("without a required member, with the service's own error code", () => {
    for (const body of [
      metrics(`<Version>1.0</Version><Enabled>true</Enabled>${NO_RETENTION}`),
      metrics(`<Enabled>false</Enabled>${NO_RETENTION}`),
      metrics("<Version>1.0</Version><Enabled>false</Enabled>"),
      metrics(`${NO_METRICS.replace(NO_RETENTION, "")}<RetentionPolicy />`),
      cors("<CorsRule />"),
    ]) {
      assertRefused(body, TABLE_DOCUMENTS, "InvalidXmlDocument");
      assertRefused(body, QUEUE_DOCUMENTS, "MissingRequiredXmlNode");
      assertRefused(body, BLOB_DOCUMENTS, "MissingRequiredXmlNode");
    }
  });

  it("with an unknown element, with the service's own error code", () => {
    for (const body of ["<Metrics />", "<Cors><Rule /></Cors>", metrics(`${NO_METRICS}<X />`)]) {
      assertRefused(body, TABLE_DOCUMENTS, "InvalidXmlDocument");
      assertRefused(body, QUEUE_DOCUMENTS, "UnsupportedXmlNode");
    }
    const version = "<DefaultServiceVersion>2021-12-02</DefaultServiceVersion>";
    assertRefused(version, QUEUE_DOCUMENTS, "UnsupportedXmlNode");
    assertRefused(version, TABLE_DOCUMENTS, "InvalidXmlDocument");
  });

  it("with invalid values", () => {
    for (const body of [
      metrics(NO_METRICS.replace("false", "no")),
      metrics(NO_METRICS.replace("false", "")),
      metrics(NO_METRICS.replace("1.0", "2.0")),
    ]) {
      for (const rules of SERVICES) assertRefused(body, rules, "InvalidXmlNodeValue");
    }
    for (const version of ["2021-13-02", "2021-02-30", "latest", "2008-10-26", ""]) {
      const body = `<DefaultServiceVersion>${version}</DefaultServiceVersion>`;
      assertRefused(body, BLOB_DOCUMENTS, "InvalidXmlNodeValue");
    }
  });

  it("when elements repeat, or contain text next to or elements instead of what is expected", () => {
    for (const body of [
      "<Cors /><Cors />",
      "<Cors>x</Cors>",
      metrics(`x${NO_METRICS}`),
      metrics(NO_METRICS.replace("1.0", "<X />")),
    ]) {
      for (const rules of SERVICES) assertRefused(body, rules, "InvalidXmlDocument");
    }
  });

  it("without any group", () => {
    for (const rules of SERVICES) assertRefused("", rules, "InvalidXmlDocument");
  });

  it("when the document is empty or has another root", () => {
    for (const text of ["", "<Cors />", "<storageserviceproperties />"]) {
      const body = new TextEncoder().encode(text);
      for (const rules of SERVICES) {
        assert.throws(() => parseServiceProperties(body, rules), { code: "InvalidXmlDocument" });
      }
    }
  });

  it("with the name and value of the element and the reason in the details", () => {
    assert.throws(() => parse(metrics(NO_METRICS.replace("false", "no"))), {
      details: [
        ["XmlNodeName", "Enabled"],
        ["XmlNodeValue", "no"],
        ["Reason", "true or false is expected."],
      ],
    });
    assert.throws(() => parse("<Metrics />", QUEUE_DOCUMENTS), {
      details: [["XmlNodeName", "Metrics"]],
    });
  });
});

const SERVICES = [TABLE_DOCUMENTS, QUEUE_DOCUMENTS, BLOB_DOCUMENTS];

const retention: fc.Arbitrary<RetentionDays> = fc.option(fc.integer({ min: 1, max: 365 }));
const metrics: fc.Arbitrary<Metrics> = fc.oneof(
  fc.record({ enabled: fc.constant(false as const), retentionDays: retention }),
  fc.record({
    enabled: fc.constant(true as const),
    includeApis: fc.boolean(),
    retentionDays: retention,
  }),
);
const item = fc.stringMatching(/^[!-+\--~]{1,20}$/).filter((text) => !text.endsWith("*"));
const corsRule: fc.Arbitrary<CorsRule> = fc.record({
  allowedOrigins: fc.array(item, { minLength: 1, maxLength: 4 }),
  allowedMethods: fc.subarray(["GET", "PUT", "MERGE", "PATCH"], { minLength: 1 }),
  allowedHeaders: fc.array(item, { maxLength: 3 }),
  exposedHeaders: fc.constantFrom([], ["*"], ["x-ms-*", "etag"]),
  maxAgeSeconds: fc.nat(),
});
const common = {
  logging: fc.record({
    read: fc.boolean(),
    write: fc.boolean(),
    delete: fc.boolean(),
    retentionDays: retention,
  }),
  hourMetrics: metrics,
  minuteMetrics: metrics,
  cors: fc.array(corsRule, { maxLength: 5 }),
};
const anyService: fc.Arbitrary<{ rules: DocumentRules; properties: ServiceProperties }> = fc.oneof(
  fc.record({
    rules: fc.constantFrom(TABLE_DOCUMENTS, QUEUE_DOCUMENTS),
    properties: fc.record(common),
  }),
  fc.record({
    rules: fc.constant(BLOB_DOCUMENTS),
    properties: fc.record({
      ...common,
      defaultServiceVersion: fc.constantFrom("2015-02-21", "2026-04-06"),
      deleteRetentionPolicy: fc.constant({ enabled: false as const }),
      staticWebsite: fc.constant({ enabled: false as const, defaultIndexDocumentPath: "a/<b>" }),
    }),
  }),
);

function parse(groups: string, rules: DocumentRules = TABLE_DOCUMENTS) {
  const document = `<StorageServiceProperties>${groups}</StorageServiceProperties>`;
  return parseServiceProperties(new TextEncoder().encode(document), rules);
}

function assertRefused(groups: string, rules: DocumentRules, code: string): void {
  assert.throws(() => parse(groups, rules), { name: "ServiceError", code }, groups);
}
