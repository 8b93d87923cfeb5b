"""Tables with a user's own keys become a dataset: Parquet and CSV, larger than memory, in whatever order rows and files
lie (docs/importing.md). DuckDB joins and sorts, hopfeed makes the arrays; the extra ``hopfeed[tables]`` brings DuckDB."""

from hopfeed.tables.doors import import_chunked, import_graphbolt, import_snap
from hopfeed.tables.importing import import_tables, infer_description

__all__ = ["import_chunked", "import_graphbolt", "import_snap", "import_tables", "infer_description"]
