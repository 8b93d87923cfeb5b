// Any bytes in the place of one file of a dataset: the first byte says which (0: the manifest, whose checksum
// is then put right, or nothing behind it would ever be reached), the rest is its content. Opening, verifying
// and sampling refuse it with an Error or work.
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "core/base/error.h"
#include "core/batch/aligned_block.h"
#include "core/dataset/dataset.h"
#include "core/maker/batch_maker.h"
#include "core/seeds/link_set.h"
#include "core/seeds/node_list.h"
#include "tests/support/tiny_dataset.h"
#include "tests/support/typed_dataset.h"

namespace {

namespace fs = std::filesystem;
using namespace hopfeed;

/// A dataset whose files lie in memory: each is a link to a memfd, so that another content costs no disk.
class Files {
 public:
  Files() {
    testing::write_typed_dataset(dataset(), ring(), {.by_id = true});
    std::vector<fs::path> paths{dataset() / "meta.json"};
    for (const auto& entry : fs::recursive_directory_iterator(dataset())) {
      if (entry.path().extension() == ".npy") paths.push_back(entry.path());
    }
    std::sort(paths.begin() + 1, paths.end());
    paths_ = paths;
    for (const fs::path& path : paths) {
      std::ifstream in(path, std::ios::binary);
      contents_.emplace_back((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
      memfds_.push_back(memfd_create("fuzz", MFD_CLOEXEC));
      put(contents_.size() - 1, contents_.back());
      fs::remove(path);
      fs::create_symlink("/proc/self/fd/" + std::to_string(memfds_.back()), path);
    }
  }
  /// Each file as a seed of the corpus: its number, then its content.
  void store(const fs::path& corpus) const {
    for (std::size_t i = 0; i < contents_.size(); ++i) {
      std::string name = paths_[i].lexically_relative(dataset()).string();
      std::replace(name.begin(), name.end(), '/', '_');
      std::ofstream(corpus / name, std::ios::binary) << static_cast<char>(i) << contents_[i];
    }
  }
  fs::path dataset() const { return folder_.path() / "data"; }
  std::size_t count() const { return contents_.size(); }
  void put(std::size_t file, const std::string& content) const {
    if (ftruncate(memfds_[file], static_cast<off_t>(content.size())) != 0 ||
        pwrite(memfds_[file], content.data(), content.size(), 0) != static_cast<ssize_t>(content.size()))
      std::abort();
  }
  void put_back(std::size_t file) const { put(file, contents_[file]); }

 private:
  /// A ring of six with a file of every kind: weights, times and links to predict too.
  static testing::TypedGraph ring() {
    const testing::TinyGraph plain = testing::labelled_ring();
    testing::TypedGraph graph{.nodes = {{.count = plain.num_nodes,
                                         .x = plain.x,
                                         .x_width = plain.x_width,
                                         .y = plain.y,
                                         .time = {3, 1, 4, 1, 5, 9},
                                         .num_classes = plain.num_classes,
                                         .splits = plain.splits}},
                              .edges = {{.sources = plain.src, .destinations = plain.dst}}};
    for (std::size_t e = 0; e < plain.src.size(); ++e)
      graph.edges[0].weight.push_back(e % 2 ? 1e6 : static_cast<double>(e % 3 + 1));
    graph.edges[0].splits["train"] = {.pairs = {0, 1, 2, 5, 3, 3}, .labels = {0, 2, 1}, .times = {9, 4, 5}};
    return graph;
  }

  testing::TempFolder folder_;
  std::vector<fs::path> paths_;
  std::vector<std::string> contents_;
  std::vector<int> memfds_;
};

template <class List>
void sample(const Dataset& dataset, const List& seeds, const BatchOptions& options) {
  BatchMaker maker(dataset, seeds, options);
  AlignedBlock block(maker.sample({.seed = 1, .epoch = 0, .first = 0, .count = seeds.size()}));
  maker.write(block.bytes());
}

void sample_every_kind(const Dataset& dataset) {
  const NodeList seeds(dataset.split(0, "train"), {.node_type = 0, .shuffle = true});
  for (const BatchOptions& options :
       {BatchOptions{.fanouts = {2, -1}, .edge_ids = true},
        BatchOptions{.fanouts = {1, 2}, .weight = "weight", .edge_attrs = {"weight"}},
        BatchOptions{.fanouts = {-1, 2}, .weight = "weight"},
        BatchOptions{.fanouts = {1, 2}, .replace = true, .weight = "weight"},
        BatchOptions{.fanouts = {1, 2}, .labor = true},
        BatchOptions{.fanouts = {1, -1}, .time = "time", .edge_ids = true},
        BatchOptions{.fanouts = {2, 2}, .time = "time", .time_window = 3},
        BatchOptions{.fanouts = {2},
        .time = "time",
        .temporal_strategy = TemporalStrategy::kLast,
        .time_window = 4}}) {
    try {
      sample(dataset, seeds, options);
    } catch (const Error&) {
    }
  }
}

void sample_links(const Dataset& dataset) {
  const LinkSet set(dataset, 0, {});
  const LinkList links = set.list({.edge_type = 0, .shuffle = true});
  const NegativeOptions binary{.mode = NegativeMode::kBinary, .amount = 2, .strict = true},
      by_weight{.mode = NegativeMode::kBinary, .strict = true, .src_weight = "y", .dst_weight = "time"};
  for (BatchOptions options :
       {BatchOptions{.fanouts = {2, -1}}, BatchOptions{.fanouts = {2}, .time = "time", .time_window = 3}}) {
    for (const NegativeOptions& negatives : {NegativeOptions{}, binary, by_weight}) {
      options.link = {.edge_type = "to", .negatives = negatives, .exclude = Exclude::kReverse};
      try {
        sample(dataset, links, options);
      } catch (const Error&) {
      }
    }
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const Files files;
  // After a meant change of the format.
  if (static bool stored = false;
      const char* corpus = stored ? nullptr : std::getenv("HOPFEED_STORE_CORPUS")) {
    stored = true;
    files.store(corpus);
  }
  if (size == 0) return 0;
  const std::size_t file = data[0] % files.count();
  std::string content(reinterpret_cast<const char*>(data) + 1, size - 1);
  if (const std::string sealed = file == 0 ? seal_meta(content) : ""; !sealed.empty()) content = sealed;
  files.put(file, content);
  try {
    const Dataset dataset(files.dataset());
    try {
      dataset.verify([](std::uint64_t, std::uint64_t) {});
    } catch (const Error&) {
    }
    for (const auto& sample_all : {sample_every_kind, sample_links}) {
      try {
        sample_all(dataset);
      } catch (const Error&) {
      }
    }
  } catch (const Error&) {
  }
  files.put_back(file);
  return 0;
}
