import type { BlobOperation } from "./blob-operation.ts";

/** Get Account Information, which any caller with a key or a token may request on any resource of the account. */
export const getAccountInformation: BlobOperation<void, void> = {
  name: "GetAccountInformation",
  route: { method: "GET", resource: "account information", comp: "properties" },
  // The empty string is granted by any permissions.
  access: { resourceType: "sco", accountSas: [""], serviceSas: [""], bearer: "read" },
  decode: () => undefined,
  run: () => undefined,

  encode: () => ({
    status: 200,
    headers: [
      "x-ms-sku-name",
      "Standard_LRS",
      "x-ms-account-kind",
      "StorageV2",
      "x-ms-is-hns-enabled",
      "false",
    ],
  }),
};
