// Reads a folder of results, as hopfeed.infer and the programs' --write make it: rows of nodes in shards, and
// manifest.json, which is written last. Each machine has a folder of its own, with the shards of its
// partitions.
//
//   manifest.json                                    format "hopfeed-results", version 1
//   <output>/<node type>/part-PPPP-BBBBB.npy         rows, [n, width]
//   <output>/<node type>/part-PPPP-BBBBB.ids.npy     the original ids of these nodes, int64 [n]
//   <output>/<node type>/part-PPPP-BBBBB.keys.npy    where there are keys: int64 [n], UUIDs uint8 [n, 16], or
//                                                    the bytes of texts, which begin where
//   <output>/<node type>/part-PPPP-BBBBB.key_offsets.npy     says, int64 [n + 1]
#pragma once
#include <xxhash.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/dataset/dataset_meta.h"
#include "core/dataset/npy.h"

namespace hopfeed {

struct ResultsFile {
  std::filesystem::path path;
  std::uint64_t bytes = 0, xxh3 = 0;  // of the whole file
};

struct ResultsShard {
  std::int64_t rows = 0;
  std::map<std::string, ResultsFile> files;  // "rows", "ids", "keys", "key_offsets"
  /// Throws kCorrupt where the manifest names no such file.
  const ResultsFile& file(const std::string& kind) const;
};

/// The rows of one node type in one folder.
struct ResultsFolder {
  std::filesystem::path folder;
  std::string run, fingerprint;   // of the computation, of the dataset
  std::string output, node_type;  // "embeddings", "node"
  std::string dtype;              // of the rows: float32, float16, int64
  std::int64_t width = 0;         // of a row
  std::int64_t rows = 0;          // here
  std::int64_t count = 0;         // of nodes of the type
  /// Of how many nodes the run was to write rows, on all machines; none where an earlier release wrote it.
  std::optional<std::int64_t> chosen;
  std::string signature;          // of which nodes, and of softmax; empty where the manifest has none
  KeyType keys = KeyType::kNone;  // that lie beside the rows
  std::vector<ResultsShard> shards;
  ElementType type() const { return element_type_from(dtype); }
};

/// Empty names choose the only output, and the only node type. Throws kNotFound where the folder holds no
/// results or not these, kCorrupt and kVersion naming the file, kUnsupported for Parquet.
ResultsFolder read_results_folder(const std::filesystem::path& folder, const std::string& output,
                                  const std::string& node_type);

/// Throws kInvalid naming both folders, and in what the second is of another computation than the first.
void require_same_results(const ResultsFolder& first, const ResultsFolder& second);

/// An array of a shard, read front to back; its checksum is compared when all of it has been.
class ShardArray {
 public:
  /// Throws kCorrupt where its size, type or shape is another; -1 in the shape: any number.
  ShardArray(const ResultsFile& file, ElementType type, const std::vector<std::int64_t>& shape);
  /// Returns the elements that come next, as many bytes; with the last of them it throws kCorrupt where the
  /// checksum is another.
  std::span<const std::byte> next(std::size_t bytes);
  std::size_t left() const { return elements_.size() - at_; }
  /// Returns all elements, compared.
  std::span<const std::byte> all() { return next(left()); }

 private:
  void compare();
  std::filesystem::path path_;
  NpyArray array_;
  std::span<const std::byte> elements_;
  std::size_t at_ = 0;
  std::uint64_t wanted_ = 0;
  std::unique_ptr<XXH3_state_t, XXH_errorcode (*)(XXH3_state_t*)> hash_{XXH3_createState(), XXH3_freeState};
};

}  // namespace hopfeed
