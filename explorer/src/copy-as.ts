/** The same query for other programs. None contains a credential. */

export interface CopiedQuery {
  /** `http://127.0.0.1:10002` */
  readonly origin: string;
  readonly account: string;
  readonly table: string;
  readonly filter: string;
  readonly select: readonly string[];
}

export const LANGUAGES = ["curl", "JavaScript", "C#", "Python"] as const;
export type Language = (typeof LANGUAGES)[number];

export function copyAs(language: Language, query: CopiedQuery): string {
  return WRITERS[language](query);
}

const WRITERS: Readonly<Record<Language, (query: CopiedQuery) => string>> = {
  curl({ origin, account, table, filter, select }) {
    const parts = [
      ...(filter === "" ? [] : [`$filter=${filter}`]),
      ...(select.length === 0 ? [] : [`$select=${select.join(",")}`]),
    ];
    const data = parts.map((part) => ` \\\n  --data-urlencode ${shell(part)}`).join("");
    return (
      `# SAS: a shared access signature of the account, without the question mark\n` +
      `curl --get "${origin}/${account}/${table}()?$SAS"${data} \\\n` +
      `  --header 'Accept: application/json;odata=nometadata'\n`
    );
  },
  JavaScript({ table, filter, select }) {
    const options = [
      ...(filter === "" ? [] : [`filter: ${JSON.stringify(filter)}`]),
      ...(select.length === 0 ? [] : [`select: ${JSON.stringify(select)}`]),
    ].join(", ");
    const argument = options === "" ? "" : `{ queryOptions: { ${options} } }`;
    return (
      `import { TableClient } from "@azure/data-tables";\n\n` +
      `const table = TableClient.fromConnectionString(process.env.AZURE_STORAGE_CONNECTION_STRING, ${JSON.stringify(table)});\n` +
      `for await (const entity of table.listEntities(${argument})) console.log(entity);\n`
    );
  },
  "C#"({ table, filter, select }) {
    const args = [
      ...(filter === "" ? [] : [`filter: ${csharp(filter)}`]),
      ...(select.length === 0 ? [] : [`select: new[] { ${select.map(csharp).join(", ")} }`]),
    ].join(", ");
    return (
      `using Azure.Data.Tables;\n\n` +
      `var connection = Environment.GetEnvironmentVariable("AZURE_STORAGE_CONNECTION_STRING");\n` +
      `var table = new TableClient(connection, ${csharp(table)});\n` +
      `await foreach (var entity in table.QueryAsync<TableEntity>(${args}))\n    Console.WriteLine(entity.RowKey);\n`
    );
  },
  Python({ table, filter, select }) {
    const projection = select.length === 0 ? "" : `, select=[${select.map(python).join(", ")}]`;
    const call =
      filter === ""
        ? `list_entities(${projection.slice(2)})`
        : `query_entities(${python(filter)}${projection})`;
    return (
      `import os\nfrom azure.data.tables import TableClient\n\n` +
      `connection = os.environ["AZURE_STORAGE_CONNECTION_STRING"]\n` +
      `table = TableClient.from_connection_string(connection, ${python(table)})\n` +
      `for entity in table.${call}:\n    print(entity)\n`
    );
  },
};

function shell(text: string): string {
  return `'${text.replaceAll("'", "'\\''")}'`;
}

/** JSON's escapes are those of C# and Python strings, too. */
function csharp(text: string): string {
  return JSON.stringify(text);
}

function python(text: string): string {
  return JSON.stringify(text);
}
