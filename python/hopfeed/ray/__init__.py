"""hopfeed on Ray: imports of tables on its workers, results as datasets of Ray Data, and sampling servers as its actors.

``pip install 'hopfeed[ray]'`` brings Ray.
"""

from __future__ import annotations

import os
from typing import Any

from hopfeed.ray.engine import RayCluster
from hopfeed.ray.results import read_results
from hopfeed.ray.servers import Servers, Share, servers, start_servers, stop_servers

__all__ = ["RayCluster", "Servers", "Share", "import_tables", "read_results", "servers", "start_servers", "stop_servers"]


def import_tables(description: Any, out: str | os.PathLike[str], **options: Any) -> Any:
    """Imports tables into a dataset on the cluster of Ray, with the bytes of :func:`hopfeed.import_tables`.

    Args:
        description: as :func:`hopfeed.import_tables` takes it.
        out: the dataset's folder, which all nodes see.
        options: of ``hopfeed.tables.cluster.importing.import_tables``.

    Raises:
        InvalidError: Ray is not installed, or the description cannot be served.
    """
    from hopfeed.tables.cluster.importing import import_tables as on_a_cluster

    return on_a_cluster(RayCluster(), description, out, **options)
