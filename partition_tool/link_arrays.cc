// See link_arrays.h.
#include "partition_tool/link_arrays.h"

#include <fmt/format.h>

#include <memory>
#include <vector>

#include "core/base/error.h"

namespace hopfeed {
namespace {

/// One array of a split on its way to its file, hashed as it passes.
class LinkFile {
 public:
  LinkFile(DatasetWriter& writer, std::string path, const std::vector<std::int64_t>& shape)
      : writer_(writer),
        path_(std::move(path)),
        file_(writer.open(path_, npy_descr(ElementType::kInt64), shape)),
        hash_(XXH3_createState(), &XXH3_freeState) {
    XXH3_128bits_reset(hash_.get());
  }
  void write(std::span<const std::int64_t> numbers) {
    file_.write(numbers);
    XXH3_128bits_update(hash_.get(), numbers.data(), numbers.size_bytes());
  }
  XXH128_hash_t close() {
    writer_.close(path_, std::move(file_));
    return XXH3_128bits_digest(hash_.get());
  }

 private:
  DatasetWriter& writer_;
  const std::string path_;
  NpyWriter file_;
  const std::unique_ptr<XXH3_state_t, decltype(&XXH3_freeState)> hash_;
};

}  // namespace

void write_links(DatasetWriter& writer, const RawGraph& graph, int edge_type, const EdgeTypeMeta& edge,
                 Fingerprint& fingerprint, const Progress& progress) {
  using enum Fingerprint::LinkArray;
  for (const auto& [name, links] : graph.edges[edge_type].splits) {
    const std::string step = "Writing edge split " + name;
    LinkFile pairs(writer, link_pairs_path(edge, name), {links.count, 2});
    std::unique_ptr<LinkFile> labels, times;
    if (links.has_labels)
      labels = std::make_unique<LinkFile>(writer, link_labels_path(edge, name), std::vector{links.count});
    if (links.has_times)
      times = std::make_unique<LinkFile>(writer, link_times_path(edge, name), std::vector{links.count});
    std::int64_t done = 0;
    links.read(graph.edges[edge_type], [&](const LinkBlock& block) {
      pairs.write(block.pairs);
      if (labels) labels->write(block.labels);
      if (times) times->write(block.times);
      done += std::ssize(block.pairs) / 2;
      progress(
          {step.c_str(), "links", static_cast<std::uint64_t>(done), static_cast<std::uint64_t>(links.count)});
    });
    fingerprint.add_links(edge_type, name, kPairs, pairs.close());
    if (labels) fingerprint.add_links(edge_type, name, kLabels, labels->close());
    if (times) fingerprint.add_links(edge_type, name, kTimes, times->close());
  }
}

}  // namespace hopfeed
