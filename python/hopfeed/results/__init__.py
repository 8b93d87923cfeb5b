"""Every node's embedding, exact: a model's layers over whole neighbourhoods, written under the user's own ids and keys."""

from hopfeed.results.infer import infer
from hopfeed.results.read import Results, read_results

__all__ = ["Results", "infer", "read_results"]
