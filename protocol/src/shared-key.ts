import { ServiceError } from "./errors.ts";

/**
 * The strings to sign for Shared Key, as clients and servers build them. Clients differ in details
 * (header order, empty parameters, `+`), so the Queue and Blob functions yield every accepted
 * variant, likeliest first; each is built only on demand and never twice.
 * Source: "Authorize with Shared Key".
 */

/** A request as sent: nothing decoded, nothing normalized. */
export interface SignableRequest {
  /** Upper case. */
  readonly verb: string;
  /** Percent-encoded, including the account segment of path-style URLs, without the query. */
  readonly rawPath: string;
  readonly query: SignableQuery;
  /** Names and values alternating. */
  readonly rawHeaders: readonly string[];
  /** By lower-case name; the last value when there are several. */
  header(name: string): string | undefined;
}

export interface SignableQuery {
  /** Without the question mark. */
  readonly raw: string;
  /** The first value of a name, decoded. @throws URIError if an escape is malformed. */
  get(name: string): string | undefined;
}

/**
 * Table: VERB, Content-MD5, Content-Type, date, resource. No canonicalized headers.
 * @throws ServiceError RequestUrlFailedToParse.
 */
export function tableSharedKeyString(
  request: SignableRequest,
  account: string,
  path = request.rawPath,
): string {
  const contentMd5 = request.header("content-md5") ?? "";
  const contentType = request.header("content-type") ?? "";
  return `${request.verb}\n${contentMd5}\n${contentType}\n${tableSharedKeyLiteString(request, account, path)}`;
}

/**
 * Table: date and resource; the only query parameter signed is `comp`.
 * @throws ServiceError RequestUrlFailedToParse.
 */
export function tableSharedKeyLiteString(
  request: SignableRequest,
  account: string,
  path = request.rawPath,
): string {
  const date = request.header("x-ms-date") ?? request.header("date") ?? "";
  return `${date}\n/${account}${path || "/"}${compOf(request.query)}`;
}

/** Longer queries are tried as documented only: an anonymous client must not cause many signatures. */
const VARIOUS_QUERY_LENGTH_MAX = 8 * 1024;
/** The same for more or longer headers: metadata takes at most half of that. */
const VARIOUS_HEADERS_MAX = 200;
const VARIOUS_HEADERS_LENGTH_MAX = 16 * 1024;

/**
 * Queue and Blob: every accepted variant.
 * @throws ServiceError InvalidHeaderValue for a signed header sent twice, RequestUrlFailedToParse.
 */
export function* sharedKeyStrings(
  request: SignableRequest,
  account: string,
  path = request.rawPath,
): Generator<string, void, undefined> {
  const signed = collectHeaders(request.rawHeaders);
  const heads = contentOrders(request.verb, signed);
  const spacings = spacingsOf(signed);
  if (request.query.raw.length > VARIOUS_QUERY_LENGTH_MAX) {
    const parameters = canonicalParameters(request.query.raw, { plus: "+", empties: true });
    for (const extensions of spacings) {
      yield `${heads[0]}${documentedOrder(extensions)}/${account}${path || "/"}${parameters}`;
    }
    return;
  }
  for (const extensions of spacings) {
    for (const parameters of parameterReadings(request.query.raw)) {
      const resource = `/${account}${path || "/"}${parameters}`;
      for (const headers of headerOrders(extensions)) {
        for (const head of heads) yield `${head}${headers}${resource}`;
      }
    }
  }
}

/**
 * Queue and Blob, Lite scheme: the only query parameter signed is `comp`.
 * @throws ServiceError InvalidHeaderValue for a signed header sent twice, RequestUrlFailedToParse.
 */
export function* sharedKeyLiteStrings(
  request: SignableRequest,
  account: string,
  path = request.rawPath,
): Generator<string, void, undefined> {
  const signed = collectHeaders(request.rawHeaders);
  const { standard } = signed;
  const head = [
    request.verb,
    standard["content-md5"],
    standard["content-type"],
    standard.date,
    "",
  ].join("\n");
  const resource = `/${account}${path || "/"}${compOf(request.query)}`;
  for (const extensions of spacingsOf(signed)) {
    for (const headers of headerOrders(extensions)) yield `${head}${headers}${resource}`;
  }
}

function compOf(query: SignableQuery): string {
  if (query.raw === "") return "";
  try {
    const comp = query.get("comp");
    return comp === undefined ? "" : `?comp=${comp}`;
  } catch (cause) {
    throw new ServiceError("RequestUrlFailedToParse", { cause });
  }
}

interface SignedHeaders {
  readonly standard: Readonly<StandardHeaders>;
  readonly extensions: readonly ExtensionHeader[];
  /** Whether white space inside one of them could be folded. */
  readonly isSpaced: boolean;
}

/** An `x-ms-` header: its name in lower case and its canonical line. */
interface ExtensionHeader {
  readonly name: string;
  readonly line: string;
}

/**
 * White space inside a value is to be folded, says the documentation. The JavaScript and Python clients sign it
 * as they send it.
 */
function spacingsOf({ extensions, isSpaced }: SignedHeaders): (readonly ExtensionHeader[])[] {
  if (!isSpaced) return [extensions];
  const folded = extensions.map(({ name, line }) => ({ name, line: fold(line) }));
  return [folded, extensions];
}

const UNFOLDED = /[^\S ]| {2}/;

function fold(line: string): string {
  return `${line.trimEnd().replace(/\s+/g, " ")}\n`;
}

/** The standard headers that are signed; `undefined` for one that was not sent. */
const NO_STANDARD_HEADERS = {
  "content-encoding": undefined,
  "content-language": undefined,
  "content-length": undefined,
  "content-md5": undefined,
  "content-type": undefined,
  date: undefined,
  "if-modified-since": undefined,
  "if-match": undefined,
  "if-none-match": undefined,
  "if-unmodified-since": undefined,
  range: undefined,
};

type StandardHeader = keyof typeof NO_STANDARD_HEADERS;
type StandardHeaders = { [Name in StandardHeader]: string | undefined };

function collectHeaders(rawHeaders: readonly string[]): SignedHeaders {
  const standard: StandardHeaders = { ...NO_STANDARD_HEADERS };
  const extensions: ExtensionHeader[] = [];
  let isSpaced = false;
  for (let index = 0; index + 1 < rawHeaders.length; index += 2) {
    const name = rawHeaders[index]!.toLowerCase();
    const value = rawHeaders[index + 1]!;
    if (name.startsWith("x-ms-")) {
      const sent = value.trim();
      isSpaced ||= UNFOLDED.test(sent);
      extensions.push({ name, line: `${name}:${sent}\n` });
    } else if (isStandard(name)) {
      if (standard[name] !== undefined) throw repeated(name, value);
      standard[name] = value;
    }
  }
  // "0" counts as absent since version 2015-02-21, the oldest that Queue and Blob serve here.
  if (standard["content-length"] === "0") standard["content-length"] = "";
  if (extensions.some(({ name }) => name === "x-ms-date")) standard.date = "";
  return { standard, extensions, isSpaced };
}

function isStandard(name: string): name is StandardHeader {
  return Object.hasOwn(NO_STANDARD_HEADERS, name);
}

function repeated(name: string, value: string): ServiceError {
  return new ServiceError("InvalidHeaderValue", {
    details: [
      ["HeaderName", name],
      ["HeaderValue", value],
    ],
  });
}

/** The protocol signs Content-Encoding before Content-Language; the JavaScript client does the reverse. */
function contentOrders(verb: string, { standard }: SignedHeaders): string[] {
  const encoding = standard["content-encoding"] ?? "";
  const language = standard["content-language"] ?? "";
  const rest =
    `${standard["content-length"] ?? ""}\n${standard["content-md5"] ?? ""}\n` +
    `${standard["content-type"] ?? ""}\n${standard.date ?? ""}\n` +
    `${standard["if-modified-since"] ?? ""}\n${standard["if-match"] ?? ""}\n` +
    `${standard["if-none-match"] ?? ""}\n${standard["if-unmodified-since"] ?? ""}\n` +
    `${standard.range ?? ""}\n`;
  const orders = [`${verb}\n${encoding}\n${language}\n${rest}`];
  if (encoding !== language) orders.push(`${verb}\n${language}\n${encoding}\n${rest}`);
  return orders;
}

/** How header names are compared: one function per order in use besides the documented one. */
const SORT_KEYS: readonly ((name: string) => string)[] = [
  (name) => weigh(name, WEIGHTS),
  (name) => weigh(name, WEIGHTS_WITHOUT_ZERO),
  (name) => name.replace(/[-_]/g, ""),
];

/** Index of the order in which names with equal keys keep the order they came in, as .NET does. */
const SYMBOL_BLIND = 2;

/** Ascending by weight. Characters not listed have no weight and are skipped. */
const WEIGHTS = "!#$%&*.^_`|~+0123456789abcdefghijklmnopqrstuvwxyz";
/** An older table, in which the digit 0 has no weight. */
const WEIGHTS_WITHOUT_ZERO = WEIGHTS.replace("0", "");

function weigh(name: string, weights: string): string {
  let key = "";
  for (const character of name) {
    const weight = weights.indexOf(character);
    if (weight >= 0) key += String.fromCharCode(weight + 1);
  }
  return key;
}

/** The canonicalized headers in each distinct order. */
function* headerOrders(headers: readonly ExtensionHeader[]): Generator<string, void, undefined> {
  const first = documentedOrder(headers);
  yield first;
  const isMuch = headers.length > VARIOUS_HEADERS_MAX || first.length > VARIOUS_HEADERS_LENGTH_MAX;
  if (isMuch) return;
  const tried = [first];
  for (let order = 0; order < SORT_KEYS.length; order++) {
    const text = sortedBy(SORT_KEYS[order]!, headers, order === SYMBOL_BLIND);
    if (tried.includes(text)) continue;
    tried.push(text);
    yield text;
  }
}

/**
 * The headers in the documented order. Most requests are signed in it and sent in it, so that
 * nothing needs sorting. It also finds repeated headers, because they are adjacent; comparing each
 * header with all others would take too long.
 * @throws ServiceError InvalidHeaderValue
 */
function documentedOrder(headers: readonly ExtensionHeader[]): string {
  let text = "";
  let previous = "";
  for (const { name, line } of headers) {
    if (name === previous) throw repeated(name, line.slice(name.length + 1, -1));
    if (name < previous) {
      return documentedOrder([...headers].sort((a, b) => compare(a.name, b.name)));
    }
    text += line;
    previous = name;
  }
  return text;
}

function sortedBy(
  sortKey: (name: string) => string,
  headers: readonly ExtensionHeader[],
  keepsTies: boolean,
): string {
  return headers
    .map(({ name, line }) => ({ name, line, key: sortKey(name) }))
    .sort((a, b) => compare(a.key, b.key) || (keepsTies ? 0 : compare(a.name, b.name)))
    .map(({ line }) => line)
    .join("");
}

/** The signed parameters in each distinct reading. */
function* parameterReadings(raw: string): Generator<string, void, undefined> {
  const tried: string[] = [];
  for (const plus of raw.includes("+") ? ["+", " "] : ["+"]) {
    for (const empties of [true, false]) {
      const text = canonicalParameters(raw, { plus, empties });
      if (tried.includes(text)) continue;
      tried.push(text);
      yield text;
    }
  }
}

/**
 * One line per name, sorted; the values of a name sorted and joined by commas. `plus` is the
 * meaning of an unescaped plus, `empties` whether parameters without a value are included.
 */
function canonicalParameters(raw: string, reading: { plus: string; empties: boolean }): string {
  if (raw === "") return "";
  const parameters: { name: string; value: string }[] = [];
  for (const pair of raw.split("&")) {
    if (pair === "") continue;
    const equals = pair.indexOf("=");
    const name = decode(equals < 0 ? pair : pair.slice(0, equals), reading.plus).toLowerCase();
    const value = equals < 0 ? "" : decode(pair.slice(equals + 1), reading.plus);
    if (value !== "" || reading.empties) parameters.push({ name, value });
  }
  parameters.sort((a, b) => compare(a.name, b.name) || compare(a.value, b.value));
  let text = "";
  let previous: string | undefined;
  for (const { name, value } of parameters) {
    text += name === previous ? `,${value}` : `\n${name}:${value}`;
    previous = name;
  }
  return text;
}

function decode(text: string, plus: string): string {
  try {
    const spaced = plus === "+" ? text : text.replaceAll("+", plus);
    return spaced.includes("%") ? decodeURIComponent(spaced) : spaced;
  } catch (cause) {
    throw new ServiceError("RequestUrlFailedToParse", { cause });
  }
}

function compare(a: string, b: string): number {
  return a < b ? -1 : a > b ? 1 : 0;
}
