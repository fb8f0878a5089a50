"""Imports each module of a generated client, and sends requests with it: session.py FOLDER ADDRESS."""
import importlib, io, pkgutil, sys

sys.path.insert(0, sys.argv[1])
import pando_client
from pando_client import models, types

modules = [module.name for module in pkgutil.walk_packages(pando_client.__path__, "pando_client.")]
for module in modules:
    importlib.import_module(module)
for name in ("Problem", "NewTable", "Batch", "PutStep", "Statements", "TableChange"):
    assert hasattr(models, name), f"no type {name}"
client = pando_client.Client(base_url=sys.argv[2])
from pando_client.api.databases import put_v1_databases_database
from pando_client.api.records import get_v1_databases_database_tables_table_entries as entries
from pando_client.api.records import post_v1_databases_database_tables_table_entries as import_entries
from pando_client.api.tables import put_v1_databases_database_tables_table

status = lambda answer: int(answer.status_code)
assert status(put_v1_databases_database.sync_detailed("shop", client=client, body=models.NewDatabase())) == 201
made = put_v1_databases_database_tables_table.sync_detailed("shop", "fruit", client=client, body=models.NewTable())
assert status(made) == 201, made
lines = types.File(payload=io.BytesIO(b'{"key":"apple","value":"red"}\n'))
stored = import_entries.sync_detailed("shop", "fruit", client=client, body=lines)
assert status(stored) == 200, stored
read = entries.sync_detailed("shop", "fruit", client=client, limit=1)
assert status(read) == 200 and read.content == b'{"key":"apple","value":"red"}\n', read
print(f"{len(modules)} modules are imported, and the client works")
