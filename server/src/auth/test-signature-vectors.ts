import type { AccessPolicy } from "@rowhouse/protocol/access-policy";
import { type AuthDialect, blobAuth, queueAuth, tableAuth } from "./dialect.ts";
import type { RequestSketch } from "./test-request.ts";

/** A request whose signature is known, for the development account. */
export interface SignatureVector {
  readonly name: string;
  readonly dialect: AuthDialect;
  /** Method and target; the signature of a SAS is added to the query. */
  readonly line: string;
  readonly scheme: "SharedKey" | "SharedKeyLite" | "SAS";
  readonly request: RequestSketch;
  readonly stringToSign: string;
  readonly signature: string;
  /** A time at which the request is valid. */
  readonly now: string;
  /** The stored policy that the token names. */
  readonly policy?: AccessPolicy;
}

const TABLE_DATE = "Wed, 06 Jan 2021 01:01:30 GMT";
const TABLE_NOW = "2021-01-06T01:01:30Z";
const MESSAGE_DATE = "Fri, 31 Jul 2026 18:00:00 GMT";
const MESSAGE_NOW = "2026-07-31T18:00:00Z";

const AWKWARD_PATH =
  "/devstoreaccount1/People(PartitionKey='O''Brien',RowKey='a%20b%20%C3%A9%2525')";

export const TABLE_VECTORS: readonly SignatureVector[] = [
  tableKey("S1", "SharedKeyLite", "POST /devstoreaccount1/Tables", {
    stringToSign: `${TABLE_DATE}\n/devstoreaccount1/devstoreaccount1/Tables`,
    signature: "J72xKTYqvYCwsHxgTVPSzZoiOSNCAz++XWeR2rwwQyw=",
  }),
  tableKey("S2, host-style", "SharedKeyLite", "POST /Tables", {
    stringToSign: `${TABLE_DATE}\n/devstoreaccount1/Tables`,
    signature: "/pwjvxB1MV9unHtTskEI+mJV2BAAu8kn3vM1ubJbpkM=",
  }),
  tableKey("S3", "SharedKey", "POST /devstoreaccount1/Tables", {
    headers: { "Content-Type": "application/json;odata=nometadata" },
    stringToSign: `POST\n\napplication/json;odata=nometadata\n${TABLE_DATE}\n/devstoreaccount1/devstoreaccount1/Tables`,
    signature: "BQ2pTCDs1UdimnfNNcSngo0T1U+gP1aPYhRFZYok/Y4=",
  }),
  tableKey("S4, the path as sent", "SharedKey", `GET ${AWKWARD_PATH}`, {
    stringToSign: `GET\n\n\n${TABLE_DATE}\n/devstoreaccount1${AWKWARD_PATH}`,
    signature: "hvaYTtVfQS3hc76Uek2ne45FyWvJ87XWnvmvjyrFbUI=",
  }),
  tableKey("S5", "SharedKey", "GET /devstoreaccount1/People?comp=acl", {
    stringToSign: `GET\n\n\n${TABLE_DATE}\n/devstoreaccount1/devstoreaccount1/People?comp=acl`,
    signature: "MpCunqLTaKMfyj6glUqYp3Dw1b+8kJyDwKgWP6nvOfE=",
  }),
  tableKey(
    "S6, only comp",
    "SharedKeyLite",
    "GET /devstoreaccount1/?restype=service&comp=properties",
    {
      stringToSign: `${TABLE_DATE}\n/devstoreaccount1/devstoreaccount1/?comp=properties`,
      signature: "zUEqTS7xs4FziHlEwQUIuvkVZs3dVC2kGvPWl9HEwa0=",
    },
  ),
  tableKey("S7", "SharedKey", "POST /devstoreaccount1/$batch", {
    headers: { "Content-Type": "multipart/mixed; boundary=batch_a1" },
    stringToSign: `POST\n\nmultipart/mixed; boundary=batch_a1\n${TABLE_DATE}\n/devstoreaccount1/devstoreaccount1/$batch`,
    signature: "aJ+pA5wAC25BAeuJgBXwrbEgE6cw7mRMKOolVH/QpUM=",
  }),
  tableKey("S8, host-style secondary", "SharedKeyLite", "GET /?restype=service&comp=stats", {
    secondary: true,
    stringToSign: `${TABLE_DATE}\n/devstoreaccount1/?comp=stats`,
    signature: "ArwzrVUUgLb4O96HBY13X/NJD8xSn0ii1wQLTzhVPNY=",
  }),
  tableKey("S9, query ignored", "SharedKeyLite", `GET ${AWKWARD_PATH}?$select=age`, {
    stringToSign: `${TABLE_DATE}\n/devstoreaccount1${AWKWARD_PATH}`,
    signature: "D7DpHvNpWSwMtQIY+es1TUDA3OKq/RfC+WeBt0ppal8=",
  }),
  tableSas(
    "T1, key range",
    "st=2021-01-06T00:00:00Z&se=2021-01-07T00:00:00Z&sp=raud&spr=https&sv=2019-02-02&tn=People&spk=a&srk=1&epk=b&erk=9",
    {
      secure: true,
      stringToSign:
        "raud\n2021-01-06T00:00:00Z\n2021-01-07T00:00:00Z\n/table/devstoreaccount1/people\n\n\nhttps\n2019-02-02\na\n1\nb\n9",
      signature: "XU/9I1Hdf1t5EjJFFW1tKLrEGIrhp0pMIiBI+yOHjh8=",
    },
  ),
  tableSas("T2, stored policy only", "si=policy1&sv=2019-02-02&tn=people", {
    policy: { id: "policy1", expiry: "2021-01-07", permission: "r" },
    stringToSign: "\n\n\n/table/devstoreaccount1/people\npolicy1\n\n\n2019-02-02\n\n\n\n",
    signature: "EZKTkTjEWVlkV/jiHSuudJa0ZFHVSr832k9uPK254wI=",
  }),
  tableSas(
    "T3, addresses",
    "se=2021-01-07T00:00:00Z&sp=r&sip=10.0.0.1-10.0.0.9&spr=https,http&sv=2015-04-05&tn=people",
    {
      remoteAddress: "10.0.0.5",
      stringToSign:
        "r\n\n2021-01-07T00:00:00Z\n/table/devstoreaccount1/people\n\n10.0.0.1-10.0.0.9\nhttps,http\n2015-04-05\n\n\n\n",
      signature: "Mn0l7MaMizHNGEXKl3/lF9Di4zhtlJHKixta6Nyo0J0=",
    },
  ),
  tableSas("T4, old resource", "se=2021-01-07T00:00:00Z&sp=r&sv=2013-08-15&tn=people", {
    stringToSign: "r\n\n2021-01-07T00:00:00Z\n/devstoreaccount1/people\n\n2013-08-15\n\n\n\n",
    signature: "qJa/aaos4MNMDfY5D/NRF7TRArrmyllMuV/YkQO8mok=",
  }),
  tableSas("T5, prefixed resource", "se=2021-01-07T00:00:00Z&sp=r&sv=2015-02-21&tn=people", {
    stringToSign: "r\n\n2021-01-07T00:00:00Z\n/table/devstoreaccount1/people\n\n2015-02-21\n\n\n\n",
    signature: "/cq9esRwxOSwOuS11UY78a8buWcLkSCFErJk96mYHvQ=",
  }),
  tableSas(
    "A1, account SAS",
    "sv=2019-02-02&ss=t&srt=sco&st=2021-01-06T00:00:00Z&se=2021-01-07T00:00:00Z&sp=rl",
    {
      stringToSign:
        "devstoreaccount1\nrl\nt\nsco\n2021-01-06T00:00:00Z\n2021-01-07T00:00:00Z\n\n\n2019-02-02\n",
      signature: "73BzdTA9+0BEV5MPC67qZIxMMcMeBWjeCa0eVBBOvjI=",
    },
  ),
  tableSas(
    "A2, account SAS with a scope line",
    "sv=2020-12-06&ss=t&srt=sco&se=2021-01-07T00:00:00Z&sp=rwdlacu&spr=https",
    {
      secure: true,
      stringToSign:
        "devstoreaccount1\nrwdlacu\nt\nsco\n\n2021-01-07T00:00:00Z\n\nhttps\n2020-12-06\n\n",
      signature: "qWap4T4IFf+ShNrQWdPrvAPkECpBKrvsj7Gi2bVd4vQ=",
    },
  ),
];

const NO_LINES_TO_DATE = "\n\n\n\n\n\n\n\n\n\n\n\n";
const X_MS = `x-ms-date:${MESSAGE_DATE}\n`;
const VERSION_LINE = "x-ms-version:2026-04-06\n";
const RECEIPT_PATH = "/devstoreaccount1/orders/messages/5974b586-0df3-4e2d-ad0c-18e3892bfca2";

export const QUEUE_VECTORS: readonly SignatureVector[] = [
  messageKey("Q-V1", queueAuth, "SharedKey", "PUT /devstoreaccount1/orders", {
    headers: { "Content-Length": "0", "x-ms-meta-zone": "eu", "x-ms-meta-owner": "ops" },
    stringToSign: `PUT${NO_LINES_TO_DATE}${X_MS}x-ms-meta-owner:ops\nx-ms-meta-zone:eu\n${VERSION_LINE}/devstoreaccount1/devstoreaccount1/orders`,
    signature: "2dd/7wGdM06XgiLFTKaSJ0fDznQv3GsgiGLe33p3BOc=",
  }),
  messageKey(
    "Q-V2",
    queueAuth,
    "SharedKey",
    "POST /devstoreaccount1/orders/messages?visibilitytimeout=10&messagettl=3600",
    {
      headers: { "Content-Type": "application/xml", "Content-Length": "126" },
      stringToSign: `POST\n\n\n126\n\napplication/xml\n\n\n\n\n\n\n${X_MS}${VERSION_LINE}/devstoreaccount1/devstoreaccount1/orders/messages\nmessagettl:3600\nvisibilitytimeout:10`,
      signature: "hYI9tkIqa+Nae7/V336UIfvCG531DQq0N9AkoYAcUPg=",
    },
  ),
  messageKey(
    "Q-V3, decoded values",
    queueAuth,
    "SharedKey",
    "GET /devstoreaccount1/?comp=list&prefix=or%2Dders&maxresults=2&include=metadata",
    {
      stringToSign: `GET${NO_LINES_TO_DATE}${X_MS}${VERSION_LINE}/devstoreaccount1/devstoreaccount1/\ncomp:list\ninclude:metadata\nmaxresults:2\nprefix:or-ders`,
      signature: "oz1C99MMZ2Gj/YfM3OTHbTBj18SJQzg530t8tFwYSaM=",
    },
  ),
  messageKey(
    "Q-V4, a receipt with + / =",
    queueAuth,
    "SharedKey",
    `DELETE ${RECEIPT_PATH}?popreceipt=AgAA%2BAEA%2FAAp%3D`,
    {
      stringToSign: `DELETE${NO_LINES_TO_DATE}${X_MS}${VERSION_LINE}/devstoreaccount1${RECEIPT_PATH}\npopreceipt:AgAA+AEA/AAp=`,
      signature: "4tSTrIQmBg5jIBIRStaVcLNEbfdyAwPigZinbSdUK2Y=",
    },
  ),
  messageKey("Q-V5, Lite", queueAuth, "SharedKeyLite", "GET /devstoreaccount1/orders?comp=acl", {
    stringToSign: `GET\n\n\n\n${X_MS}${VERSION_LINE}/devstoreaccount1/devstoreaccount1/orders?comp=acl`,
    signature: "fFPTLhQoTrwxMV+SkCl07+yus4R4ow6UYitVo87t/fA=",
  }),
  messageKey("Q-V6, host-style", queueAuth, "SharedKey", "GET /orders/messages?numofmessages=32", {
    stringToSign: `GET${NO_LINES_TO_DATE}${X_MS}${VERSION_LINE}/devstoreaccount1/orders/messages\nnumofmessages:32`,
    signature: "ALrTdontxLO8rxbMV+blaHSLH8EFvT7ot4T1158+F4g=",
  }),
  messageSas(
    "Q-V7",
    queueAuth,
    "/devstoreaccount1/orders/messages?sv=2026-04-06&spr=https%2Chttp&st=2026-07-31T00%3A00%3A00Z&se=2026-08-31T00%3A00%3A00Z&sp=raup",
    {
      location: { resource: "messages", name: "orders" },
      stringToSign:
        "raup\n2026-07-31T00:00:00Z\n2026-08-31T00:00:00Z\n/queue/devstoreaccount1/orders\n\n\nhttps,http\n2026-04-06",
      signature: "ggzqS59GtBmqHgpBNrY4wFHG1wy8O5hEbQ/kG63kg+U=",
    },
  ),
  messageSas(
    "Q-V8, stored policy only",
    queueAuth,
    "/devstoreaccount1/orders/messages?sv=2026-04-06&si=reader",
    {
      location: { resource: "messages", name: "orders" },
      policy: { id: "reader", expiry: "2026-08-31T00:00:00.0000000Z", permission: "r" },
      stringToSign: "\n\n\n/queue/devstoreaccount1/orders\nreader\n\n\n2026-04-06",
      signature: "+LV4XrqoVzudHyUWZfX+ajxFmCVMbWfV88xFelhizYg=",
    },
  ),
  messageSas(
    "Q-V9, account SAS",
    queueAuth,
    "/devstoreaccount1/orders/messages?sv=2026-04-06&ss=q&srt=sco&spr=https%2Chttp&st=2026-07-31T00%3A00%3A00Z&se=2026-08-31T00%3A00%3A00Z&sp=rwdlacup",
    {
      location: { resource: "messages", name: "orders" },
      stringToSign:
        "devstoreaccount1\nrwdlacup\nq\nsco\n2026-07-31T00:00:00Z\n2026-08-31T00:00:00Z\n\nhttps,http\n2026-04-06\n\n",
      signature: "5Adv1EiQAQin1lzBdVIG61G2KdZwBmfCm2sGH8imqNY=",
    },
  ),
  messageSas(
    "Q-V10, older account SAS",
    queueAuth,
    "/devstoreaccount1/?comp=list&sv=2019-12-12&ss=bq&srt=sc&sp=rl&se=2026-08-31T00:00:00Z&sip=127.0.0.1&spr=https",
    {
      secure: true,
      stringToSign:
        "devstoreaccount1\nrl\nbq\nsc\n\n2026-08-31T00:00:00Z\n127.0.0.1\nhttps\n2019-12-12\n",
      signature: "OtPAAUdoiuBgXPXe90qixd8qBu0LI6C+ig3OqZPnNcE=",
    },
  ),
];

const REPORT = { resource: "blob", name: "docs", item: "report 1.txt" };
const DOCS = { resource: "container", name: "docs" };
const LOG_PATH = "/devstoreaccount1/logs/queue/2014/07/31/1800/000001.log";

export const BLOB_VECTORS: readonly SignatureVector[] = [
  messageKey("B-V1", blobAuth, "SharedKey", "PUT /devstoreaccount1/docs/report%201.txt", {
    headers: {
      "Content-Type": "application/octet-stream",
      "Content-Length": "11",
      "x-ms-blob-content-type": "text/plain",
      "x-ms-blob-type": "BlockBlob",
      "x-ms-meta-Kind": "report",
    },
    stringToSign: `PUT\n\n\n11\n\napplication/octet-stream\n\n\n\n\n\n\nx-ms-blob-content-type:text/plain\nx-ms-blob-type:BlockBlob\n${X_MS}x-ms-meta-kind:report\n${VERSION_LINE}/devstoreaccount1/devstoreaccount1/docs/report%201.txt`,
    signature: "s9xCByCMWbmbx3cvnyX/4AQLilorSoq48oZKjphsbCY=",
  }),
  messageKey("B-V2", blobAuth, "SharedKey", "GET /devstoreaccount1/docs/report%201.txt", {
    headers: { Range: "bytes=0-4", "If-None-Match": '"0x8DECF31A2B4C6D0"' },
    stringToSign: `GET\n\n\n\n\n\n\n\n\n"0x8DECF31A2B4C6D0"\n\nbytes=0-4\n${X_MS}${VERSION_LINE}/devstoreaccount1/devstoreaccount1/docs/report%201.txt`,
    signature: "D+PVux8OLcWwr5ZmJ4SQ7qFED9E5hDFMLu7h2KWZUtQ=",
  }),
  messageKey(
    "B-V3",
    blobAuth,
    "SharedKey",
    "GET /devstoreaccount1/logs?comp=list&prefix=queue%2F2014%2F07%2F31%2F&restype=container&delimiter=%2F",
    {
      stringToSign: `GET${NO_LINES_TO_DATE}${X_MS}${VERSION_LINE}/devstoreaccount1/devstoreaccount1/logs\ncomp:list\ndelimiter:/\nprefix:queue/2014/07/31/\nrestype:container`,
      signature: "DcS5rToZ8VkrmL2Qw9s9CEOvEaSuMa4YCvYAfirCJzA=",
    },
  ),
  messageKey(
    "B-V4, a parameter twice",
    blobAuth,
    "SharedKey",
    "GET /devstoreaccount1/logs?restype=container&comp=list&include=metadata&include=copy",
    {
      stringToSign: `GET${NO_LINES_TO_DATE}${X_MS}${VERSION_LINE}/devstoreaccount1/devstoreaccount1/logs\ncomp:list\ninclude:copy,metadata\nrestype:container`,
      signature: "HlfAbtegBJypvVeAkB/sJUo/xRBS9Qz9DeomPhKJm48=",
    },
  ),
  messageKey("B-V5", blobAuth, "SharedKey", `PUT ${LOG_PATH}?comp=appendblock`, {
    headers: {
      "Content-Type": "application/octet-stream",
      "Content-Length": "6",
      "Content-MD5": "Hdq5BYoHq8DbJgWrAqYaAA==",
      "x-ms-blob-condition-appendpos": "0",
    },
    stringToSign: `PUT\n\n\n6\nHdq5BYoHq8DbJgWrAqYaAA==\napplication/octet-stream\n\n\n\n\n\n\nx-ms-blob-condition-appendpos:0\n${X_MS}${VERSION_LINE}/devstoreaccount1${LOG_PATH}\ncomp:appendblock`,
    signature: "L5ia2IuG/l3CTi+diMNVLp4Zrkpple3iNVBslITJfEA=",
  }),
  messageKey(
    "B-V6, Lite",
    blobAuth,
    "SharedKeyLite",
    "PUT /devstoreaccount1/docs/a.txt?comp=metadata",
    {
      headers: { "x-ms-meta-m1": "v1", "x-ms-meta-m2": "v2" },
      stringToSign: `PUT\n\n\n\n${X_MS}x-ms-meta-m1:v1\nx-ms-meta-m2:v2\n${VERSION_LINE}/devstoreaccount1/devstoreaccount1/docs/a.txt?comp=metadata`,
      signature: "fMZ0RdePIoCgz6pTf1rNm8XoBzFlfA6D0tRaFZVBcmc=",
    },
  ),
  messageSas(
    "B-V7, response headers",
    blobAuth,
    "/devstoreaccount1/docs/report%201.txt?sv=2026-04-06&spr=https%2Chttp&st=2026-07-31T00%3A00%3A00Z&se=2026-08-31T00%3A00%3A00Z&sr=b&sp=racwd&rscc=no-cache&rscd=attachment%3B%20filename%3D%22r.txt%22&rsct=text%2Fplain",
    {
      location: REPORT,
      stringToSign:
        'racwd\n2026-07-31T00:00:00Z\n2026-08-31T00:00:00Z\n/blob/devstoreaccount1/docs/report 1.txt\n\n\nhttps,http\n2026-04-06\nb\n\n\nno-cache\nattachment; filename="r.txt"\n\n\ntext/plain',
      signature: "JXEcE5CvCAqbU3+DXwGPAkXjf1OuPyj+msMDiiVPJg0=",
    },
  ),
  messageSas(
    "B-V8, container",
    blobAuth,
    "/devstoreaccount1/docs?restype=container&comp=list&sv=2019-12-12&se=2026-08-31T00%3A00%3A00Z&sr=c&sp=rl",
    {
      location: DOCS,
      stringToSign:
        "rl\n\n2026-08-31T00:00:00Z\n/blob/devstoreaccount1/docs\n\n\n\n2019-12-12\nc\n\n\n\n\n\n",
      signature: "/sHGsmw/h2YRr1iAhCAS2bdOS5CINyUIKhCzaOe6r+A=",
    },
  ),
  messageSas(
    "B-V9, before the kind was signed",
    blobAuth,
    "/devstoreaccount1/docs/report%201.txt?sv=2018-03-28&se=2026-08-31T00%3A00%3A00Z&sr=b&sp=r",
    {
      location: REPORT,
      stringToSign:
        "r\n\n2026-08-31T00:00:00Z\n/blob/devstoreaccount1/docs/report 1.txt\n\n\n\n2018-03-28\n\n\n\n\n",
      signature: "JebOWBeNPwUfscx9p9xv4gchMDh/ErOswrz9GQTGvNc=",
    },
  ),
  messageSas(
    "B-V10, stored policy only",
    blobAuth,
    "/devstoreaccount1/docs/report%201.txt?sv=2026-04-06&si=readers&sr=c",
    {
      location: REPORT,
      policy: { id: "readers", start: "2026-07-01", expiry: "2026-08-31", permission: "rl" },
      stringToSign: "\n\n\n/blob/devstoreaccount1/docs\nreaders\n\n\n2026-04-06\nc\n\n\n\n\n\n\n",
      signature: "NzkllJ2lo2It5GuX13CPXxIQkG76ICmoNrGJO6Jjd/c=",
    },
  ),
  messageSas(
    "B-V11, account SAS",
    blobAuth,
    "/devstoreaccount1/docs/report%201.txt?sv=2026-04-06&ss=b&srt=sco&se=2026-08-31T00%3A00%3A00Z&sp=rwdlac",
    {
      location: REPORT,
      stringToSign: "devstoreaccount1\nrwdlac\nb\nsco\n\n2026-08-31T00:00:00Z\n\n\n2026-04-06\n\n",
      signature: "auTWfjqPGOYg3hyPPdnQernQn1w/mNlCf+G+9ldF+u4=",
    },
  ),
  messageKey("B-V12, host-style", blobAuth, "SharedKey", "HEAD /docs/report%201.txt", {
    stringToSign: `HEAD${NO_LINES_TO_DATE}${X_MS}${VERSION_LINE}/devstoreaccount1/docs/report%201.txt`,
    signature: "3jlyVFXICa2aL9O/8QN5HKTDTKKRAj3u3lAk87NvGHU=",
  }),
  messageKey(
    "B-V13a, byte-wise order",
    blobAuth,
    "SharedKey",
    "PUT /devstoreaccount1/docs?restype=container",
    {
      headers: { "x-ms-meta-a1": "1", "x-ms-meta-a_1": "2" },
      stringToSign: `PUT${NO_LINES_TO_DATE}${X_MS}x-ms-meta-a1:1\nx-ms-meta-a_1:2\n${VERSION_LINE}/devstoreaccount1/devstoreaccount1/docs\nrestype:container`,
      signature: "f5fW3gAHlp7A9WIaBrGIxUoRilyKnXdAS2+xHqtWZb0=",
    },
  ),
  messageKey(
    "B-V13b, order by weight",
    blobAuth,
    "SharedKey",
    "PUT /devstoreaccount1/docs?restype=container",
    {
      headers: { "x-ms-meta-a1": "1", "x-ms-meta-a_1": "2" },
      stringToSign: `PUT${NO_LINES_TO_DATE}${X_MS}x-ms-meta-a_1:2\nx-ms-meta-a1:1\n${VERSION_LINE}/devstoreaccount1/devstoreaccount1/docs\nrestype:container`,
      signature: "a4B2U3Ttr2F6b7sgoy79LMlKQo+XfVb3vvSHjwxWqrg=",
    },
  ),
];

export const SIGNATURE_VECTORS = [...TABLE_VECTORS, ...QUEUE_VECTORS, ...BLOB_VECTORS];

interface Expected extends RequestSketch {
  readonly stringToSign: string;
  readonly signature: string;
  readonly policy?: AccessPolicy;
}

function tableKey(
  name: string,
  scheme: "SharedKey" | "SharedKeyLite",
  line: string,
  expected: Expected,
): SignatureVector {
  const headers = { "x-ms-date": TABLE_DATE, "x-ms-version": "2019-02-02" };
  return signedByKey(name, tableAuth, scheme, line, { expected, headers, now: TABLE_NOW });
}

function messageKey(
  name: string,
  dialect: AuthDialect,
  scheme: "SharedKey" | "SharedKeyLite",
  line: string,
  expected: Expected,
): SignatureVector {
  const headers = { "x-ms-date": MESSAGE_DATE, "x-ms-version": "2026-04-06" };
  return signedByKey(name, dialect, scheme, line, { expected, headers, now: MESSAGE_NOW });
}

function signedByKey(
  name: string,
  dialect: AuthDialect,
  scheme: "SharedKey" | "SharedKeyLite",
  line: string,
  given: { expected: Expected; headers: Record<string, string>; now: string },
): SignatureVector {
  const { stringToSign, signature, ...request } = given.expected;
  const headers = {
    ...request.headers,
    ...given.headers,
    Authorization: `${scheme} devstoreaccount1:${signature}`,
  };
  return {
    name,
    dialect,
    scheme,
    line,
    request: { ...request, headers },
    stringToSign,
    signature,
    now: given.now,
  };
}

function tableSas(name: string, query: string, expected: Expected): SignatureVector {
  const location = { resource: "entities", name: "People" };
  const target = `/devstoreaccount1/People?${query}`;
  return signedBySas(name, tableAuth, target, {
    expected: { location, ...expected },
    now: TABLE_NOW,
  });
}

function messageSas(
  name: string,
  dialect: AuthDialect,
  target: string,
  expected: Expected,
): SignatureVector {
  return signedBySas(name, dialect, target, { expected, now: MESSAGE_NOW });
}

function signedBySas(
  name: string,
  dialect: AuthDialect,
  target: string,
  given: { expected: Expected; now: string },
): SignatureVector {
  const { stringToSign, signature, policy, ...request } = given.expected;
  const line = `GET ${target}&sig=${encodeURIComponent(signature)}`;
  return {
    name,
    dialect,
    scheme: "SAS",
    line,
    request,
    stringToSign,
    signature,
    now: given.now,
    ...(policy && { policy }),
  };
}
