"""Queries a table with the official client for Python. Reads what to do as JSON, and writes what was found as JSON."""

import json
import sys

from azure.core.credentials import AzureNamedKeyCredential
from azure.data.tables import TableClient

asked = json.load(sys.stdin)
plans = []


def keep_plan(response):
    plans.append(response.http_response.headers.get("x-rowhouse-plan"))


def found(table, query_filter):
    plans.clear()
    entities = table.query_entities(query_filter, raw_response_hook=keep_plan)
    rows = [
        {
            "partitionKey": entity["PartitionKey"],
            "rowKey": entity["RowKey"],
            "Title": entity["Title"],
            "Year": entity["Year"],
            "etag": entity.metadata["etag"],
        }
        for entity in entities
    ]
    return {"rows": rows, "plan": plans[-1]}


credential = AzureNamedKeyCredential(asked["account"], asked["key"])
with TableClient(asked["url"], asked["table"], credential=credential) as table:
    json.dump([found(table, query_filter) for query_filter in asked["filters"]], sys.stdout)
