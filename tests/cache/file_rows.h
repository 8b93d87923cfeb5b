// Tests of features in files share this: a dataset with rows, the rows that a source gives, and reads that go
// wrong.
#pragma once
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <random>
#include <utility>
#include <vector>

#include "cache/file_reader.h"
#include "core/maker/feature_source.h"
#include "tests/support/tiny_dataset.h"

namespace hopfeed::testing {

using Ids = std::vector<std::int64_t>;

inline const FeatureName kX{.store = Store::kNode, .type = 0, .name = "x"};

inline void write_rows(const std::filesystem::path& folder, std::int64_t nodes, std::int64_t width,
                       int partitions) {
  TinyGraph graph =
      random_graph({.num_nodes = nodes, .num_edges = 4 * nodes, .x_width = width, .num_train = nodes / 2});
  write_tiny_dataset(folder, graph, random_cut(graph, partitions, 3));
}

inline std::vector<std::byte> rows_of(FeatureSource& source, const Ids& ids, std::int64_t row_bytes,
                                      std::size_t calls = 1) {
  std::vector<std::byte> out(ids.size() * static_cast<std::size_t>(row_bytes), std::byte{0xee});
  std::size_t done = 0;
  const std::size_t rows = source.prepare(ids);
  for (std::size_t call = calls; call > 0; --call) {
    const std::size_t now = call == 1 ? rows - done : (rows - done) / call;
    source.gather(now, out.data() + done * static_cast<std::size_t>(row_bytes));
    done += now;
  }
  return out;
}

inline Ids random_ids(std::int64_t nodes, std::size_t count, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  Ids ids;
  for (std::size_t i = 0; i < count; ++i)
    ids.push_back(static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(nodes)));
  return ids;
}

/// A Faulty reader changes what reads are told to have brought.
class Faulty final : public FileReader {
 public:
  using Change = std::function<std::optional<Done>(Done)>;  // none: the read seems never to end
  Faulty(std::unique_ptr<FileReader> reader, Change change)
      : FileReader({.depth = 1, .buffer_bytes = kReadAlign}),
        reader_(std::move(reader)),
        change_(std::move(change)) {
    buffers_ =
        std::shared_ptr<ReadBuffers>(const_cast<ReadBuffers*>(&reader_->buffers()), [](ReadBuffers*) {});
  }
  void start(const Read& read) override { reader_->start(read); }
  void submit() override { reader_->submit(); }
  std::optional<Done> wait(std::chrono::milliseconds time) override {
    const auto done = reader_->wait(time);
    return done ? change_(*done) : done;
  }
  int under_way() const override { return reader_->under_way(); }
  const char* name() const override { return "faulty"; }

 private:
  const std::unique_ptr<FileReader> reader_;
  const Change change_;
};

}  // namespace hopfeed::testing
