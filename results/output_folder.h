// An OutputFolder is a folder of results: rows of nodes, with their original ids and what users call them by,
// as files that NumPy reads, and a manifest that is written last. hopfeed.infer writes the same
// (docs/results.md), and read_results() and hopfeed-partition gather read both.
#pragma once
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/base/owned_fd.h"
#include "core/dataset/dataset.h"
#include "core/dataset/node_keys.h"
#include "results/layer_files.h"

namespace hopfeed {

struct OutputOptions {
  std::filesystem::path folder;
  std::string name;                          // "embeddings", "scores", "classes"
  ElementType type = ElementType::kFloat32;  // of the files: float32, float16 or int64
  std::string signature;                     // what decides the files beside the run: which nodes, softmax
  std::string format = "npy";                // that they end in: npy, or what they are rewritten to
  bool overwrite = false;                    // removes the results of another run
  std::string torch = {}, processor = {};    // for the manifest
};

/// OutputType are the results of one node type.
struct OutputType {
  int node_type = 0;
  std::int64_t width = 0;
  const std::vector<bool>* wanted = nullptr;  // by original id; null: all nodes
};

class OutputFolder {
 public:
  /// Takes the folder, and goes on with what an earlier process of the same run left. Throws kBusy where
  /// another process writes there, kInvalid where it has results of another run, or files that are no
  /// results.
  OutputFolder(const Dataset& dataset, RunId run, OutputOptions options, std::vector<OutputType> types);
  OutputFolder(const OutputFolder&) = delete;
  OutputFolder& operator=(const OutputFolder&) = delete;

  /// Returns whether the run has finished it before, with these partitions, and all files are whole.
  bool finished() const { return finished_; }
  /// Returns how many rows are written, or were before.
  std::int64_t rows() const { return rows_; }
  const OutputOptions& options() const { return options_; }
  const std::vector<OutputType>& types() const { return types_; }
  /// Returns how many bytes its rows, ids and keys take, and how many of an earlier process are there.
  std::uint64_t bytes() const;
  std::uint64_t written() const;

  /// Writes rows of a type: the `number`-th shard of a partition, its rows from `first` on, float32 (or
  /// int64) and `width` of them each. Files that are there already stay as they are.
  void write(const OutputType& type, int partition, std::int64_t number, std::int64_t first,
             std::int64_t count, const std::byte* rows);
  /// Writes the manifest. Nothing is written behind it.
  void finish();

 private:
  struct File {
    std::string kind, path;
    std::uint64_t bytes = 0, xxh3 = 0;
  };
  struct Shard {
    int node_type = 0, partition = 0;
    std::int64_t rows = 0;
    std::vector<File> files;
  };
  File put(const std::string& kind, const std::string& path, const std::string& descr,
           const std::vector<std::int64_t>& shape, std::span<const std::byte> bytes) const;
  void put_keys(Shard& shard, const std::string& below, std::span<const std::int64_t> ids) const;
  std::string manifest() const;
  nlohmann::json maker() const;
  void begin();
  void take_finished(const nlohmann::json& manifest);

  const Dataset& dataset_;
  const RunId run_;
  const OutputOptions options_;
  const std::vector<OutputType> types_;
  OwnedFd lock_;
  std::vector<std::optional<NodeKeys>> keys_;  // by node type
  std::vector<Shard> shards_;
  bool finished_ = false;
  std::int64_t rows_ = 0;
};

}  // namespace hopfeed
