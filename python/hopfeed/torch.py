"""hopfeed for torch: batches of tensors, as an ``IterableDataset``, and ``DistEmbedding``, learned rows at servers.

The loader can be iterated as it is, or given to ``torch.utils.data.DataLoader(loader, batch_size=None)`` or to Lightning.
``num_workers`` is an argument of this loader, not of the DataLoader: hopfeed has its own workers.
"""

from __future__ import annotations

import hopfeed.loader
from hopfeed import _core
from hopfeed.batch import Batch
from hopfeed.version import explain_missing

try:
    from torch.utils.data import IterableDataset

    from hopfeed.dist_embedding import DistEmbedding
    from hopfeed.streams import note_streams
except ModuleNotFoundError as error:
    raise explain_missing(error, "hopfeed.torch", "torch") from None


class Loader(hopfeed.loader.Loader, IterableDataset):  # type: ignore[misc]
    """``hopfeed.Loader`` with torch tensors in place of NumPy arrays."""

    _torch = True

    def _convert(self, batch: _core.Batch) -> Batch:
        note_streams(batch, self._options)
        return super()._convert(batch)


__all__ = ["DistEmbedding", "Loader"]
