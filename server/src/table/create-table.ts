import { decodeTableName } from "@rowhouse/protocol/entity-json";
import { ServiceError } from "@rowhouse/protocol/errors";
import { refuseConditions } from "./conditions.ts";
import { checkJsonBody, contentTypeOf, type MetadataLevel, negotiateLevel } from "./negotiate.ts";
import { preferenceOf } from "./prefer.ts";
import { tableJson, tableUrl } from "./table-json.ts";
import { checkTableName } from "./table-name.ts";
import { ODATA_HEADERS, type TableOperation } from "./table-operation.ts";

interface CreateTableInput {
  readonly account: string;
  readonly name: string;
  readonly level: MetadataLevel;
}

/** Create Table. Fails with TableAlreadyExists (409) if the name is taken, in any case. */
export const createTable: TableOperation<CreateTableInput, CreateTableInput> = {
  name: "CreateTable",
  route: { method: "POST", resource: "tables" },
  access: { resourceType: "c", accountSas: ["c", "w"], serviceSas: [], bearer: "write" },
  body: "buffer",

  decode(request) {
    refuseConditions(request);
    checkJsonBody(request);
    const level = negotiateLevel(request);
    const name = decodeTableName(request.body);
    checkTableName(name);
    return { account: request.account.name, name, level };
  },

  async run({ catalog }, input) {
    const { created } = await catalog.create(input.account, input.name, { policies: [] });
    if (!created) throw new ServiceError("TableAlreadyExists");
    return input;
  },

  encode({ name, level }, request) {
    const location = tableUrl(request, name);
    const preference = preferenceOf(request);
    const headers = [...ODATA_HEADERS, "Location", location];
    if (preference) headers.push("Preference-Applied", preference);
    if (preference === "return-no-content") {
      return { status: 204, headers: [...headers, "DataServiceId", location] };
    }
    headers.push("Content-Type", contentTypeOf(level));
    return { status: 201, headers, body: tableJson(request, name, level) };
  },
};
