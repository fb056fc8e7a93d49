/**
 * Every error the services can answer: code → status, message. One row per code; where one code has
 * several wordings, by service or case, the others are in `ERROR_TEXTS`.
 * Source: "Table service error codes", "Queue service error codes", "Blob service error codes",
 * "Common REST API error codes". Codes of features that are not served (tiers, page blobs) are
 * listed so that they can be injected as faults.
 */
export const ERRORS = {
  AccountIsDisabled: [403, "The specified account is disabled."],
  AppendPositionConditionNotMet: [412, "The append position condition specified was not met."],
  AtomFormatNotSupported: [415, "Atom format is not supported."],
  AuthenticationFailed: [
    403,
    "Server failed to authenticate the request. Make sure the value of Authorization header is formed correctly including the signature.",
  ],
  AuthorizationFailure: [403, "This request is not authorized to perform this operation."],
  AuthorizationPermissionMismatch: [
    403,
    "This request is not authorized to perform this operation using this permission.",
  ],
  AuthorizationProtocolMismatch: [
    403,
    "This request is not authorized to perform this operation using this protocol.",
  ],
  AuthorizationResourceTypeMismatch: [
    403,
    "This request is not authorized to perform this operation using this resource type.",
  ],
  AuthorizationServiceMismatch: [
    403,
    "This request is not authorized to perform this operation using this service.",
  ],
  AuthorizationSourceIPMismatch: [
    403,
    "This request is not authorized to perform this operation using this source IP.",
  ],
  BlobAlreadyExists: [409, "The specified blob already exists."],
  BlobArchived: [409, "This operation is not permitted on an archived blob."],
  BlobIsSealed: [
    409,
    "The specified blob is sealed, and its contents can't be modified unless the blob is re-created after a delete.",
  ],
  BlobNotFound: [404, "The specified blob does not exist."],
  BlockCountExceedsLimit: [
    409,
    "The committed block count cannot exceed the maximum limit of 50,000 blocks.",
  ],
  BlockListTooLong: [400, "The block list may not contain more than 50,000 blocks."],
  BothCrc64AndMd5HeaderPresent: [
    400,
    "Both x-ms-content-crc64 header and Content-MD5 header are present.",
  ],
  CannotVerifyCopySource: [
    500,
    "Could not verify the copy source within the specified time. Examine the HTTP status code and message for more information about the failure.",
  ],
  CommandsInBatchActOnDifferentPartitions: [
    400,
    "All commands in a batch must operate on same entity group.",
  ],
  ConditionNotMet: [412, "The condition specified using HTTP conditional header(s) is not met."],
  ContainerAlreadyExists: [409, "The specified container already exists."],
  ContainerNotFound: [404, "The specified container does not exist."],
  CopyAcrossAccountsNotSupported: [
    400,
    "The copy source account and destination account must be the same.",
  ],
  CorsPreflightFailure: [403, "CORS not enabled or no matching rule found for this request."],
  Crc64Mismatch: [
    400,
    "The CRC64 value specified in the request did not match with the CRC64 value calculated by the server.",
  ],
  DuplicatePropertiesSpecified: [400, "A property is specified more than one time."],
  EmptyMetadataKey: [400, "The key for one of the metadata key-value pairs is empty."],
  EntityAlreadyExists: [409, "The specified entity already exists."],
  EntityTooLarge: [400, "The entity is larger than the maximum allowed size (1MB)."],
  ExceedsMaxBatchRequestCount: [
    400,
    "The batch operation exceeds maximum number of allowed subrequests.",
  ],
  HostInformationNotPresent: [
    400,
    "The required host information is not present in the request. You must send a non-empty Host header or include the absolute URI in the request line.",
  ],
  InfiniteLeaseDurationRequired: [
    412,
    "The lease ID matched, but the specified lease must be an infinite-duration lease.",
  ],
  InsufficientAccountPermissions: [
    403,
    "The account being accessed does not have sufficient permissions to execute this operation.",
  ],
  InternalError: [500, "The server encountered an internal error. Please retry the request."],
  InvalidAuthenticationInfo: [
    400,
    "Authentication information is not given in the correct format. Check the value of Authorization header.",
  ],
  InvalidBlobOrBlock: [400, "The specified blob or block content is invalid."],
  InvalidBlobType: [409, "The blob type is invalid for this operation."],
  InvalidBlockList: [400, "The specified block list is invalid."],
  InvalidDuplicateRow: [
    400,
    "The batch request contains multiple changes with same row key. An entity can appear only once in a batch request.",
  ],
  InvalidHeaderValue: [400, "The value for one of the HTTP headers is not in the correct format."],
  InvalidHttpVerb: [400, "The HTTP verb specified was not recognized by the server."],
  InvalidInput: [400, "One of the request inputs is not valid."],
  InvalidMd5: [
    400,
    "The MD5 value specified in the request is invalid. The MD5 value must be 128 bits and Base64-encoded.",
  ],
  InvalidMetadata: [
    400,
    "The metadata specified is invalid. It has characters that are not permitted.",
  ],
  InvalidQueryParameterValue: [
    400,
    "Value for one of the query parameters specified in the request URI is invalid.",
  ],
  InvalidRange: [416, "The range specified is invalid for the current size of the resource."],
  InvalidResourceName: [400, "The specifed resource name contains invalid characters."],
  InvalidUri: [400, "The requested URI does not represent any resource on the server."],
  InvalidXmlDocument: [400, "XML specified is not syntactically valid."],
  InvalidXmlNodeValue: [400, "The value for one of the XML nodes is not in the correct format."],
  JsonFormatNotSupported: [415, "JSON format is not supported."],
  JsonVerboseFormatNotSupported: [415, "JSON Verbose format is not supported."],
  LeaseAlreadyPresent: [409, "There is already a lease present."],
  LeaseIdMismatchWithBlobOperation: [
    412,
    "The lease ID specified did not match the lease ID for the blob.",
  ],
  LeaseIdMismatchWithContainerOperation: [
    412,
    "The lease ID specified did not match the lease ID for the container.",
  ],
  LeaseIdMismatchWithLeaseOperation: [
    409,
    "The lease ID specified did not match the lease ID for the blob/container.",
  ],
  LeaseIdMissing: [
    412,
    "There is currently a lease on the blob and no lease ID was specified in the request.",
  ],
  LeaseIsBreakingAndCannotBeAcquired: [
    409,
    "The lease ID matched, but the lease is currently in breaking state and cannot be acquired until it is broken.",
  ],
  LeaseIsBreakingAndCannotBeChanged: [
    409,
    "The lease ID matched, but the lease is currently in breaking state and cannot be changed.",
  ],
  LeaseIsBrokenAndCannotBeRenewed: [
    409,
    "The lease ID matched, but the lease has been broken explicitly and cannot be renewed.",
  ],
  LeaseLost: [412, "A lease ID was specified, but the lease for the blob has expired."],
  LeaseNotPresentWithBlobOperation: [412, "There is currently no lease on the blob."],
  LeaseNotPresentWithContainerOperation: [412, "There is currently no lease on the container."],
  LeaseNotPresentWithLeaseOperation: [409, "There is currently no lease on the blob/container."],
  MaxBlobSizeConditionNotMet: [412, "The max blob size condition specified was not met."],
  Md5Mismatch: [
    400,
    "The MD5 value specified in the request did not match with the MD5 value calculated by the server.",
  ],
  MediaTypeNotSupported: [415, "None of the provided media types are supported"],
  MessageNotFound: [404, "The specified message does not exist."],
  MetadataTooLarge: [400, "The metadata specified exceeds the maximum permissible limit."],
  MethodNotAllowed: [405, "The requested method is not allowed on the specified resource."],
  MissingContentLengthHeader: [411, "The Content-Length header was not specified."],
  MissingRequiredHeader: [
    400,
    "An HTTP header that's mandatory for this request is not specified.",
  ],
  MissingRequiredQueryParameter: [
    400,
    "A query parameter that's mandatory for this request is not specified.",
  ],
  MissingRequiredXmlNode: [400, "A required XML node was not specified in the request body."],
  MultipleConditionHeadersNotSupported: [400, "Multiple condition headers are not supported."],
  NoAuthenticationInformation: [
    401,
    "Server failed to authenticate the request. Please refer to the information in the www-authenticate header.",
  ],
  NoPendingCopyOperation: [409, "There is currently no pending copy operation."],
  NotImplemented: [501, "The requested operation is not implemented on the specified resource."],
  OperationTimedOut: [500, "The operation could not be completed within the permitted time."],
  OutOfRangeInput: [400, "One of the request inputs is out of range."],
  OutOfRangeQueryParameterValue: [
    400,
    "One of the query parameters specified in the request URI is outside the permissible range.",
  ],
  PopReceiptMismatch: [
    400,
    "The specified pop receipt did not match the pop receipt for a dequeued message.",
  ],
  PropertiesNeedValue: [400, "The values are not specified for all properties in the entity."],
  PropertyNameInvalid: [400, "The property name is invalid."],
  PropertyNameTooLong: [400, "The property name exceeds the maximum allowed length (255)."],
  PropertyValueTooLarge: [
    400,
    "The property value exceeds the maximum allowed size (64KB). If the property value is a string, it is UTF-16 encoded and the maximum number of characters should be 32K or less.",
  ],
  PublicAccessNotPermitted: [409, "Public access is not permitted on this storage account."],
  QueueAlreadyExists: [409, "The specified queue already exists."],
  QueueNotFound: [404, "The specified queue does not exist."],
  RequestBodyTooLarge: [
    413,
    "The request body is too large and exceeds the maximum permissible limit.",
  ],
  RequestUrlFailedToParse: [400, "The url in the request could not be parsed."],
  ResourceNotFound: [404, "The specified resource does not exist."],
  /** Ours: returned only by servers with a strict scan budget. */
  ScanBudgetExceeded: [400, "The query is over the scan budget of this server."],
  ServerBusy: [
    503,
    "The server is currently unable to receive requests. Please retry your request.",
  ],
  SourceConditionNotMet: [
    412,
    "The source condition specified using HTTP conditional header(s) is not met.",
  ],
  /** Ours: the storage keeps a checksum with everything it stores. */
  StoredDataDamaged: [
    500,
    "The requested data is damaged in the storage of this server. It is not returned.",
  ],
  TableAlreadyExists: [409, "The table specified already exists."],
  TableBeingDeleted: [409, "The specified table is being deleted. Try operation later."],
  TableNotFound: [404, "The table specified does not exist."],
  TooManyProperties: [
    400,
    "The entity contains more properties than allowed. Each entity can include up to 252 properties to store data. Each entity also has 3 system properties.",
  ],
  UnauthorizedBlobOverwrite: [403, "This request is not authorized to perform blob overwrites."],
  UnsatisfiableCondition: [
    400,
    "The request includes an unsatisfiable condition for this operation.",
  ],
  UnsupportedHeader: [400, "One of the HTTP headers specified in the request is not supported."],
  UnsupportedHttpVerb: [405, "The resource doesn't support specified Http Verb."],
  UnsupportedXmlNode: [400, "One of the XML nodes specified in the request body is not supported."],
  UpdateConditionNotSatisfied: [
    412,
    "The update condition specified in the request was not satisfied.",
  ],
  XMethodIncorrectCount: [400, "More than one X-HTTP-Method is specified."],
  XMethodIncorrectValue: [400, "The specified X-HTTP-Method is invalid."],
  XMethodNotUsingPost: [400, "The request uses X-HTTP-Method with an HTTP verb other than POST."],
} as const satisfies Record<string, readonly [status: number, message: string]>;

export type ErrorCode = keyof typeof ERRORS;

/** Alternative messages of codes above, exactly as the service sends them. */
export const ERROR_TEXTS = {
  unprocessableBody: "An error occurred while processing this request.",
  /** For queues and containers; the message for tables keeps the misspelling. */
  nameCharacters: "The specified resource name contains invalid characters.",
  keySyntaxInUrl: "Bad Request - Error in query syntax.",
  keyCountInUrl:
    "The number of keys specified in the URI does not match number of key properties for the resource.",
  nameLength: "The specified resource name length is not within the permissible limits.",
  tooManyOperations: "The batch request operation exceeds the maximum 100 changes per change set.",
  ifNoneMatchOnPut: "If-None-Match HTTP header cannot be specified for PUT operations.",
  ifNoneMatchOnDelete: "If-None-Match HTTP header cannot be specified for DELETE operations.",
  bothConditions:
    "Both If-Match and If-None-Match HTTP headers cannot be specified at the same time. Please specify either one of the headers or none of them.",
  conditionsWithoutEtag:
    "If-Match or If-None-Match headers cannot be specified if the target type does not have etag properties defined.",
  corsHeaderMissing: "A required CORS header is not present.",
  challenge: ERRORS.NoAuthenticationInformation[1],
  secondaryIsReadOnly: "Write operations are not allowed.",
  uncommittedBlockCount:
    "The uncommitted block count cannot exceed the maximum limit of 100,000 blocks.",
  containerLeaseIdMissing:
    "There is currently a lease on the container and no lease ID was specified in the request.",
} as const;

/** Extra facts that some services add to an error body, in order: element name, text. */
export type ErrorDetail = readonly [name: string, value: string];

/**
 * An error the client is meant to see. Any other error that reaches the HTTP layer is a bug. It has
 * no stack trace: an expected error needs none, and capturing it took 10 µs, a quarter of a point
 * query for a missing entity.
 */
export class ServiceError extends Error {
  readonly code: ErrorCode;
  readonly status: number;
  readonly details: readonly ErrorDetail[];
  /** Response headers that belong to the error (`Allow`, `WWW-Authenticate`): name, value. */
  readonly headers: readonly ErrorDetail[];
  /** Set when the caller could not be authenticated; the Table service words these errors differently. */
  readonly stage: "authentication" | undefined;

  constructor(code: ErrorCode, options: ServiceErrorOptions = {}) {
    const [status, message] = ERRORS[code];
    const { stackTraceLimit } = Error;
    Error.stackTraceLimit = 0;
    super(options.message ?? message, { cause: options.cause });
    Error.stackTraceLimit = stackTraceLimit;
    this.name = "ServiceError";
    this.code = code;
    this.status = options.status ?? status;
    this.details = options.details ?? [];
    this.headers = options.headers ?? [];
    this.stage = options.stage;
  }
}

export interface ServiceErrorOptions {
  readonly message?: string;
  /**
   * Only where one code is used with two statuses: `InvalidAuthenticationInfo` 400 and 401,
   * `ConditionNotMet` 412 and 304, `CannotVerifyCopySource` with that of the source.
   */
  readonly status?: number;
  readonly details?: readonly ErrorDetail[];
  readonly headers?: readonly ErrorDetail[];
  readonly stage?: "authentication";
  readonly cause?: unknown;
}
