"""Tables with a user's own keys become a dataset: Parquet and CSV, larger than memory, in whatever order rows and files
lie (docs/importing.md). DuckDB joins and sorts, hopfeed makes the arrays; the extra ``hopfeed[tables]`` brings DuckDB."""

from hopfeed.tables.importing import import_tables, infer_description

__all__ = ["import_tables", "infer_description"]
