import {
  TableClient,
  TableServiceClient,
  type TableServiceClientOptions,
} from "@azure/data-tables";
import { addAnswerPolicy, isOfCosmos, noAnswer } from "./azure/answer-policy.ts";
import { withPortErrors } from "./azure/client-error.ts";
import type { AnswerOptions } from "./azure/silence.ts";
import {
  type Answer,
  bodyOf,
  continuationOf,
  dateOf,
  encodeContinuation,
  inspectedFor,
  isEntityMissing,
  RAW_ANSWER,
  takeRows,
  toStored,
  withKeys,
} from "./azure/table-answer.ts";
import { etagsIn, transactionBody } from "./azure/transaction-body.ts";
import { printFilter } from "./ports/filter.ts";
import { isRefusalInside } from "./ports/port-error.ts";
import { type Profile, type ProfileName, profileOf } from "./ports/profile.ts";
import type {
  Continuation,
  Deadline,
  EntityKey,
  Mutation,
  Page,
  ReadOptions,
  StoredEntity,
  TableNamePage,
  TableNameRange,
  TableQuery,
  TablesPort,
} from "./ports/tables.ts";

export interface AzureTablesOptions extends AnswerOptions {
  /** The kind of endpoint that the client talks to. Default: "azure". */
  readonly profile?: ProfileName;
  /** The HTTP client that the service client was given, if any: it is not part of the client's pipeline. */
  readonly httpClient?: NonNullable<TableServiceClientOptions["httpClient"]>;
}

/**
 * Wraps the official client as a tables port. It sends through a copy of the client's current pipeline, with
 * the credential but without the retry policy: the layers above retry, because they must know that they did.
 * The client itself is not changed.
 */
export function azureTables(
  service: TableServiceClient,
  options: AzureTablesOptions = {},
): TablesPort {
  return new AzureTables(service, options);
}

/** The client passes the id on to the service but does not declare it. */
type WriteOptions = Parameters<TableClient["createEntity"]>[1] & { readonly requestId?: string };

type Pipeline = TableServiceClient["pipeline"];
type Policy = Parameters<Pipeline["addPolicy"]>[0];

class AzureTables implements TablesPort {
  readonly profile: Profile;
  readonly #service: TableServiceClient;
  readonly #pipeline: Pipeline;
  readonly #clientOptions: TableServiceClientOptions;
  readonly #clients = new Map<string, TableClient>();
  /** The bodies of transactions in flight, by request id; see `#transact`. */
  readonly #transactions = new Map<string, string>();

  constructor(service: TableServiceClient, options: AzureTablesOptions) {
    this.#pipeline = service.pipeline.clone();
    this.#pipeline.removePolicy({ name: "defaultRetryPolicy" });
    const isOfService = options.profile === "cosmos" ? isOfCosmos : undefined;
    addAnswerPolicy(this.#pipeline, "table", options, isOfService);
    this.#clientOptions = {
      allowInsecureConnection: service.url.startsWith("http:"),
      ...(options.httpClient && { httpClient: options.httpClient }),
    };
    this.#service = new TableServiceClient(service.url, this.#clientOptions);
    putPolicies(this.#service.pipeline, this.#pipeline.getOrderedPolicies());
    this.profile = profileOf(options.profile ?? "azure");
  }

  get(
    table: string,
    key: EntityKey,
    { select }: ReadOptions = {},
  ): Promise<StoredEntity | undefined> {
    let stored: StoredEntity | undefined;
    const request = this.#client(table).getEntity(key.partitionKey, key.rowKey, {
      requestOptions: {
        shouldDeserialize: (answer: Answer) => {
          // An absent entity is not worth two errors with their stacks.
          if (answer.status >= 300) return !isEntityMissing(answer);
          stored = toStored(bodyOf(answer), dateOf(answer), key);
          // As for a page; see `takeRows`.
          answer.parsedBody = {};
          return false;
        },
      },
      ...(select && { queryOptions: { select: withKeys(select) } }),
    });
    return withPortErrors(request).then(
      () => stored,
      (error) => {
        if (isRefusalInside(error, 404)) return undefined;
        throw error;
      },
    );
  }

  async query(table: string, { filter, select, top, continuation }: TableQuery): Promise<Page> {
    let entities: StoredEntity[] = [];
    let inspected: number | undefined;
    let next: Continuation | undefined;
    const pages = this.#client(table)
      .listEntities({
        onResponse: (answer, flat) => {
          if (answer.status >= 300) return;
          entities = takeRows(answer, flat);
          inspected = inspectedFor(answer);
          next = continuationOf(answer);
        },
        requestOptions: RAW_ANSWER,
        queryOptions: {
          ...(filter && { filter: printFilter(filter) }),
          ...(select && { select: withKeys(select) }),
        },
      })
      .byPage({
        ...(top !== undefined && { maxPageSize: top }),
        ...(continuation && { continuationToken: encodeContinuation(continuation) }),
      });
    await withPortErrors(pages.next());
    return {
      entities,
      ...(inspected !== undefined && { inspected }),
      ...(next && { continuation: next }),
    };
  }

  commit(
    table: string,
    mutations: readonly Mutation[],
    options: Deadline = {},
  ): Promise<(string | undefined)[]> {
    const [only] = mutations;
    return withPortErrors(
      mutations.length === 1
        ? this.#write(table, only!, options).then((etag) => [etag])
        : this.#transact(table, mutations, options),
    );
  }

  async createTable(table: string): Promise<boolean> {
    let created = true;
    // The client treats "exists already" as success and reports it only here.
    const onResponse = ({ status }: Answer) => {
      created = status !== 409;
    };
    await withPortErrors(this.#client(table).createTable({ onResponse }));
    return created;
  }

  async deleteTable(table: string): Promise<boolean> {
    let deleted = true;
    const onResponse = ({ status }: Answer) => {
      deleted = status !== 404;
    };
    await withPortErrors(this.#client(table).deleteTable({ onResponse }));
    return deleted;
  }

  async listTables({ from, to, continuation }: TableNameRange): Promise<TableNamePage> {
    const bounds = [from && `TableName ge '${from}'`, to && `TableName lt '${to}'`].filter(Boolean);
    const pages = this.#service
      .listTables({
        onResponse: (answer: Answer) => {
          if (answer.status < 300) bodyOf(answer);
        },
        ...(bounds.length > 0 && { queryOptions: { filter: bounds.join(" and ") } }),
      })
      .byPage(continuation === undefined ? {} : { continuationToken: continuation });
    const { value: page } = await withPortErrors(pages.next());
    if (!page) return { names: [] };
    const names = [...page].map(({ name }) => name ?? "");
    return { names, ...(page.continuationToken && { continuation: page.continuationToken }) };
  }

  async #write(
    table: string,
    mutation: Mutation,
    { timeoutS }: Deadline,
  ): Promise<string | undefined> {
    const client = this.#client(table);
    const options: WriteOptions = { requestOptions: timedOptions(timeoutS) };
    const { partitionKey, rowKey } = mutation;
    if (mutation.kind === "delete") {
      await client.deleteEntity(partitionKey, rowKey, { etag: mutation.ifMatch, ...options });
      return undefined;
    }
    const entity = { partitionKey, rowKey, ...mutation.properties };
    const mode = /merge/i.test(mutation.kind) ? "Merge" : "Replace";
    const { etag } = await ("ifMatch" in mutation
      ? client.updateEntity(entity, mode, { etag: mutation.ifMatch, ...options })
      : mutation.kind === "insert"
        ? client.createEntity(entity, options)
        : client.upsertEntity(entity, mode, options));
    return etag;
  }

  /**
   * The client's transactions delete unconditionally, check neither count, size nor duplicates, and create a
   * client and a pipeline each: a quarter of the CPU for three rows. We write the body ourselves and let a
   * policy substitute it for that of an insert; everything else about the request (URL, credential, transport)
   * is the client's.
   */
  async #transact(
    table: string,
    mutations: readonly Mutation[],
    { timeoutS }: Deadline,
  ): Promise<(string | undefined)[]> {
    const requestId = crypto.randomUUID();
    const [{ partitionKey, rowKey }] = mutations as readonly [Mutation];
    let answer: Answer | undefined;
    const options: WriteOptions = {
      requestId,
      requestOptions: { ...RAW_ANSWER, ...timedOptions(timeoutS) },
      onResponse: (got) => {
        answer = got;
      },
    };
    const body = transactionBody(this.#service.url, table, mutations, requestId);
    this.#transactions.set(requestId, body);
    try {
      await this.#client(table).createEntity({ partitionKey, rowKey }, options);
    } finally {
      this.#transactions.delete(requestId);
    }
    const etags = answer ? etagsIn(answer) : [];
    if (etags.length < mutations.length) throw noAnswer("table");
    return mutations.map(({ kind }, i) => (kind === "delete" ? undefined : etags[i]));
  }

  /** A client for the table, with the same pipeline and a policy for writes in it. */
  #client(table: string): TableClient {
    const known = this.#clients.get(table);
    if (known) return known;
    const client = new TableClient(this.#service.url, table, this.#clientOptions);
    const policies = this.#pipeline
      .getOrderedPolicies()
      .flatMap((policy) =>
        policy.name === "serializationPolicy" ? [policy, this.#writePolicy()] : [policy],
      );
    putPolicies(client.pipeline, policies);
    this.#clients.set(table, client);
    return client;
  }

  #writePolicy(): Policy {
    return {
      name: "rowhouseWrite",
      sendRequest: (request, next) => {
        const { headers } = request;
        const id = headers.get("x-ms-client-request-id") ?? "";
        const body = this.#transactions.get(id);
        if (body !== undefined) {
          request.body = body;
          request.url = request.url.replace(/[^/?]+(?=\?|$)/, "$$batch");
          headers.set("Accept", "application/json");
          // As in the client's own transactions.
          headers.set("DataServiceVersion", "3.0;");
          headers.set("MaxDataServiceVersion", "3.0;NetFx");
          headers.set("Content-Type", `multipart/mixed; boundary=batch_${id}`);
          headers.delete("Prefer");
        }
        const timeoutS = headers.get(TIMEOUT);
        if (timeoutS !== undefined) {
          headers.delete(TIMEOUT);
          request.url += `${request.url.includes("?") ? "&" : "?"}timeout=${timeoutS}`;
        }
        return next(request);
      },
    };
  }
}

/** The header in which the client hands the time limit of a write to our policy. It is never sent. */
const TIMEOUT = "rowhouse-timeout";

/** The client would put the time limit into the URL too, but its way costs 3 % of an index build's CPU. */
function timedOptions(timeoutS: number | undefined) {
  return timeoutS === undefined ? {} : { customHeaders: { [TIMEOUT]: String(timeoutS) } };
}

/**
 * Replaces a client's policies with these, except its own serialization policies: those of another copy of the
 * package know none of this client's operations, send bare requests and treat refusals as success.
 */
function putPolicies(pipeline: Pipeline, policies: readonly Policy[]): void {
  const own = pipeline.getOrderedPolicies();
  for (const { name } of own) pipeline.removePolicy({ name });
  for (const policy of policies) {
    const { name } = policy;
    const known = /serializationPolicy$/i.test(name) && own.find((each) => each.name === name);
    pipeline.addPolicy(known || policy);
  }
}
