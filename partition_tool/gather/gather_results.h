// Makes one array in original order of the results that lie in one folder or in those of several machines.
//
//   FILE.npy               the rows, [n, width]: row i is node i's
//   FILE.ids.npy           where there are rows of some nodes alone: whose row i is, rising, int64 [n]
//   FILE.keys.npy          where there are keys: what row i's node is called by, as in a folder of results
//   FILE.key_offsets.npy   of texts: where each key begins, int64 [n + 1]
//
// Each shard is read twice, its ids and then its rows, which go to their places in the file. What is held in
// memory is a quarter of a byte for each node, 8 bytes a row where keys are texts, and rows on their way
// (`memory`).
#pragma once
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "core/dataset/dataset_meta.h"
#include "partition_tool/progress.h"

namespace hopfeed {

struct GatherOptions {
  std::vector<std::filesystem::path> folders;
  std::filesystem::path out;        // FILE.npy
  std::string output, node_type;    // empty: the only one
  std::filesystem::path keys_from;  // a dataset's folder; empty: keys come from the folders
  bool some = false;                // rows of fewer nodes than were chosen are no error
  std::size_t memory = std::size_t{1} << 30;
};

struct GatherResult {
  std::string output, node_type, dtype, run, fingerprint;
  std::int64_t rows = 0, width = 0, count = 0;
  KeyType keys = KeyType::kNone;
  /// Folders have keys that were not gathered, since others have none.
  bool keys_left_out = false;
  std::vector<std::filesystem::path> files;
  std::uint64_t bytes = 0;  // of these
};

/// Throws kInvalid where folders are of different runs, nodes are missing or there twice, or a file is in the
/// way; kCorrupt naming a file that is not as it was written; what read_results_folder and PlacedFile throw.
/// Then nothing is written.
GatherResult gather_results(const GatherOptions& options, const Progress& progress);

}  // namespace hopfeed
