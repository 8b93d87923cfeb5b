"""The data door on a cluster: tables that no machine holds become a dataset with the same bytes as on one machine.

A task reads some files of a table with DuckDB, as an import on one machine does (:mod:`.pieces`), so that types, dirt and
values are the same. What is global is left to the cluster's own operators (:mod:`.engine`): sorts, joins, sums. Then a task for each
partition calls the shard writer, and the driver finishes the dataset (:mod:`.importing`)."""
