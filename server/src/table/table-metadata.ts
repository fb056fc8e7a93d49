import { contentTypeOf, type MetadataLevel, negotiateLevel } from "./negotiate.ts";
import { ODATA_HEADERS, type TableOperation } from "./table-operation.ts";

const READ = { resourceType: "sc", accountSas: ["l"], serviceSas: [], bearer: "read" } as const;

/** The service document. Its only content: tables are listed under "Tables". */
export const getServiceDocument: TableOperation<MetadataLevel, MetadataLevel> = {
  name: "GetServiceDocument",
  route: { method: "GET", resource: "service" },
  access: READ,
  decode: negotiateLevel,
  run: (_, level) => level,

  encode(level, { baseUrl }) {
    const value = `"value":[{"name":"Tables","url":"Tables"}]`;
    const body =
      level === "nometadata" ? `{${value}}` : `{"odata.metadata":"${baseUrl}/$metadata",${value}}`;
    return { status: 200, headers: [...ODATA_HEADERS, "Content-Type", contentTypeOf(level)], body };
  },
};

const EDMX =
  '<?xml version="1.0" encoding="utf-8"?>' +
  '<edmx:Edmx Version="1.0" xmlns:edmx="http://schemas.microsoft.com/ado/2007/06/edmx">' +
  '<edmx:DataServices m:DataServiceVersion="3.0" xmlns:m="http://schemas.microsoft.com/ado/2007/08/dataservices/metadata">' +
  '<Schema Namespace="ACCOUNT" xmlns="http://schemas.microsoft.com/ado/2009/11/edm">' +
  '<EntityType Name="Entity" OpenType="true">' +
  '<Key><PropertyRef Name="PartitionKey" /><PropertyRef Name="RowKey" /></Key>' +
  '<Property Name="PartitionKey" Type="Edm.String" Nullable="false" />' +
  '<Property Name="RowKey" Type="Edm.String" Nullable="false" />' +
  '<Property Name="Timestamp" Type="Edm.DateTime" Nullable="false" />' +
  "</EntityType></Schema></edmx:DataServices></edmx:Edmx>";

/** `$metadata`: the three properties that every entity has. Others are never declared. */
export const getMetadata: TableOperation<void, void> = {
  name: "GetMetadata",
  route: { method: "GET", resource: "metadata" },
  access: READ,
  decode: () => undefined,
  run: () => undefined,
  encode: (_, { account }) => ({
    status: 200,
    headers: ["Content-Type", "application/xml"],
    body: EDMX.replace("ACCOUNT", account.name),
  }),
};
