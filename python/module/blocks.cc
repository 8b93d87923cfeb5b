// See blocks.h. Arrays are Python's: files of a dataset that it has mapped, and shards of layers.
#include "python/module/blocks.h"

#include <fmt/format.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <xxhash.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "core/base/error.h"
#include "core/base/prefetch.h"
#include "core/dataset/row_table.h"
#include "core/draws/relabel_table.h"
#include "python/module/inference.h"
#include "python/module/truncated_files.h"

namespace nb = nanobind;

namespace hopfeed::python {
namespace {

using Ids = nb::ndarray<const std::int64_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using AnyIds = nb::ndarray<nb::ro, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Made = nb::ndarray<nb::numpy, std::int64_t>;

constexpr std::size_t kIdsAhead = 16;  // accesses that are under way

/// Hands memory over to NumPy.
Made made(std::unique_ptr<std::int64_t[]> data, std::initializer_list<std::size_t> shape) {
  std::int64_t* const first = data.release();
  const nb::capsule owner(first, [](void* p) noexcept { delete[] static_cast<std::int64_t*>(p); });
  return Made(first, shape, owner);
}

/// What a block is, before Python has it.
struct Block {
  std::unique_ptr<std::int64_t[]> sources, edges;
  std::size_t num_sources = 0;
};

/// BlockMaker numbers the sources of blocks; it is one thread's at a time.
class BlockMaker {
 public:
  explicit BlockMaker(std::int64_t num_nodes) : num_nodes_(num_nodes) {
    require_valid(num_nodes >= 0, "there are no so many nodes");
    if (num_nodes <= kMaxDirectNodes) {
      table_.emplace<DirectRelabel>(num_nodes);
    } else {
      table_.emplace<HashRelabel>(num_nodes);
    }
  }

  /// The edges `indices[offsets.front()]` and on, of the rows that `offsets` bound, by sources' places among
  /// those of the block.
  nb::tuple block(const Ids& offsets, const AnyIds& indices, std::int64_t first, const std::string& path) {
    Block block = read(offsets, indices, path,
                       [&](auto bounds, const auto* ids) { return make(bounds, ids, first, path); });
    return nb::make_tuple(made(std::move(block.sources), {block.num_sources}),
                          made(std::move(block.edges), {2, num_edges(offsets)}));
  }

 private:
  static std::size_t num_edges(const Ids& offsets) {
    return static_cast<std::size_t>(offsets.data()[offsets.shape(0) - 1] - offsets.data()[0]);
  }

  template <class Make>
  static Block read(const Ids& offsets, const AnyIds& indices, const std::string& path, Make make) {
    require_valid(offsets.shape(0) > 0, "a block has no rows");
    const std::span<const std::int64_t> bounds(offsets.data(), offsets.shape(0));
    const auto type = indices.dtype();
    const bool wide = type == nb::dtype<std::int64_t>();
    require_valid(wide || type == nb::dtype<std::int32_t>(),
                  path + " has ids that are neither int32 nor int64");
    const nb::gil_scoped_release released;
    require_whole_files();
    check(bounds, static_cast<std::int64_t>(indices.shape(0)), path);
    return wide ? make(bounds, static_cast<const std::int64_t*>(indices.data()))
                : make(bounds, static_cast<const std::int32_t*>(indices.data()));
  }

  static void check(std::span<const std::int64_t> bounds, std::int64_t num_edges, const std::string& path) {
    if (bounds.front() < 0 || bounds.back() > num_edges || !std::is_sorted(bounds.begin(), bounds.end()))
      throw Error(ErrorCode::kCorrupt,
                  path + ": row offsets that are outside the graph; run hopfeed-partition verify");
  }

  template <class Id>
  Block make(std::span<const std::int64_t> bounds, const Id* indices, std::int64_t first,
             const std::string& path) {
    return std::visit(
        [&]<class Table>(Table& table) -> Block {
          if constexpr (std::is_same_v<Table, std::monostate>) {
            return {};
          } else {
            return numbered(table, bounds, indices, first, path);
          }
        },
        table_);
  }

  template <class Table, class Id>
  Block numbered(Table& table, std::span<const std::int64_t> bounds, const Id* indices, std::int64_t first,
                 const std::string& path) {
    const std::size_t rows = bounds.size() - 1;
    const auto edges = static_cast<std::size_t>(bounds.back() - bounds.front());
    const Id* const at = indices + bounds.front();
    if (first >= 0 && first + static_cast<std::int64_t>(rows) > num_nodes_)
      throw Error(ErrorCode::kCorrupt, path + ": more rows than nodes; run hopfeed-partition verify");
    require_nodes(at, edges, path);
    table.begin_batch(nodes_);
    table.make_room(nodes_, edges + rows);
    locals_.reserve(edges + rows);
    typename Table::Inserter inserter(table, nodes_, locals_.data());
    if (first >= 0)
      for (std::size_t i = 0; i < rows; ++i) inserter.insert(static_cast<std::uint64_t>(first) + i, i);
    for (std::size_t i = 0; i < edges; ++i) {
      if (i + kIdsAhead < edges) inserter.prefetch(static_cast<std::uint64_t>(at[i + kIdsAhead]));
      inserter.insert(static_cast<std::uint64_t>(at[i]), i);
    }
    inserter.close();
    Block block{.sources = std::make_unique_for_overwrite<std::int64_t[]>(nodes_.count),
                .edges = std::make_unique_for_overwrite<std::int64_t[]>(2 * edges),
                .num_sources = nodes_.count};
    std::copy_n(nodes_.ids.data(), nodes_.count, block.sources.get());
    std::copy_n(locals_.data(), edges, block.edges.get());
    write_rows(bounds, block.edges.get() + edges);
    return block;
  }

  template <class Id>
  void require_nodes(const Id* ids, std::size_t count, const std::string& path) const {
    if (!std::all_of(ids, ids + count, [&](Id id) { return id >= 0 && id < num_nodes_; }))
      throw Error(ErrorCode::kCorrupt, path + ": neighbours that are no nodes; run hopfeed-partition verify");
  }

  static void write_rows(std::span<const std::int64_t> bounds, std::int64_t* to) {
    for (std::size_t row = 0; row + 1 < bounds.size(); ++row)
      to = std::fill_n(to, bounds[row + 1] - bounds[row], static_cast<std::int64_t>(row));
  }

  std::int64_t num_nodes_;
  std::variant<std::monostate, DirectRelabel, HashRelabel> table_;
  LocalNodes nodes_;
  ScratchArray<std::uint32_t> locals_;
};

using Addresses = nb::ndarray<const std::uint64_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Bytes = nb::ndarray<std::uint8_t, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
using AnyMatrix = nb::ndarray<nb::ndim<2>, nb::c_contig, nb::device::cpu>;

RowTable table_of(const Ids& starts, const Addresses& arrays, std::size_t stride, const Fetched* fetched) {
  RowTable table{.starts = {starts.data(), starts.shape(0)},
                 .arrays = {arrays.data(), arrays.shape(0)},
                 .stride = stride};
  if (fetched != nullptr) fetched->add_to(table);
  require_valid(table.starts.size() == table.arrays.size() + 1 &&
                    std::is_sorted(table.starts.begin(), table.starts.end()),
                "arrays that do not agree");
  return table;
}

/// Whether every row has so many bytes.
bool fits(const RowTable& table, std::size_t bytes) {
  const bool no_array = std::ranges::all_of(table.arrays, [](std::uint64_t array) { return array == 0; });
  return (no_array || bytes <= table.stride) &&
         (table.elsewhere == nullptr || table.elsewhere->size() == 0 || bytes <= table.elsewhere_stride);
}

void gather(const Ids& ids, const Ids& starts, const Addresses& arrays, std::size_t stride,
            const Fetched* fetched, const Bytes& out) {
  const RowTable table = table_of(starts, arrays, stride, fetched);
  require_valid(out.shape(0) == ids.shape(0) && (fits(table, out.shape(1)) || ids.shape(0) == 0),
                "rows that do not agree");
  const std::span<const std::int64_t> wanted(ids.data(), ids.shape(0));
  const nb::gil_scoped_release released;
  require_whole_files();
  gather_rows(table, wanted, out.shape(1), reinterpret_cast<std::byte*>(out.data()));
}

template <class Number>
void reduce_numbers(const RowTable& table, const InEdges& edges, const std::optional<AnyIds>& weights,
                    Reduction reduction, const AnyMatrix& out, std::size_t threads) {
  const std::int64_t count = edges.offsets.back() - edges.offsets.front();
  require_valid(!weights || (weights->dtype() == nb::dtype<Number>() &&
                             static_cast<std::int64_t>(weights->shape(0)) == count),
                "weights that do not agree");
  const auto* const of_edges = weights ? static_cast<const Number*>(weights->data()) : nullptr;
  const nb::gil_scoped_release released;
  require_whole_files();
  reduce_rows<Number>(table, edges, of_edges, reduction, out.shape(1), static_cast<Number*>(out.data()),
                      threads);
}

void reduce(const Ids& offsets, const AnyIds& sources, const std::optional<AnyIds>& weights,
            const Ids& starts, const Addresses& arrays, std::size_t stride, const Fetched* fetched,
            const std::string& name, const AnyMatrix& out, std::size_t threads, const std::string& path) {
  const bool wide = sources.dtype() == nb::dtype<std::int64_t>();
  require_valid(wide || sources.dtype() == nb::dtype<std::int32_t>(),
                path + " has ids that are neither int32 nor int64");
  require_valid(name == "sum" || name == "max" || name == "min", "there is no reduction '" + name + "'");
  const Reduction reduction = name == "sum"   ? Reduction::kSum
                              : name == "max" ? Reduction::kMax
                                              : Reduction::kMin;
  const InEdges edges{.offsets = {offsets.data(), offsets.shape(0)},
                      .sources = sources.data(),
                      .count = static_cast<std::int64_t>(sources.shape(0)),
                      .type = wide ? ElementType::kInt64 : ElementType::kInt32,
                      .path = path};
  const RowTable table = table_of(starts, arrays, stride, fetched);
  require_valid(!edges.offsets.empty() && out.shape(0) == edges.offsets.size() - 1 &&
                    fits(table, out.shape(1) * out.itemsize()),
                "rows that do not agree");
  if (out.dtype() == nb::dtype<double>())
    return reduce_numbers<double>(table, edges, weights, reduction, out, threads);
  require_valid(out.dtype() == nb::dtype<float>(), "rows are neither float32 nor float64");
  reduce_numbers<float>(table, edges, weights, reduction, out, threads);
}

/// Checksum is XXH3-64 of bytes that come one part after the other.
class Checksum {
 public:
  Checksum() : state_(XXH3_createState()) { XXH3_64bits_reset(state_.get()); }
  void update(const nb::ndarray<nb::ro, nb::c_contig, nb::device::cpu>& array) {
    const void* const data = array.data();
    const std::size_t bytes = array.nbytes();
    const nb::gil_scoped_release released;
    XXH3_64bits_update(state_.get(), data, bytes);
  }
  std::string hex() const { return fmt::format("{:016x}", XXH3_64bits_digest(state_.get())); }

 private:
  struct Free {
    void operator()(XXH3_state_t* state) const { XXH3_freeState(state); }
  };
  std::unique_ptr<XXH3_state_t, Free> state_;
};

}  // namespace

void bind_blocks(nb::module_& module) {
  nb::class_<BlockMaker>(module, "BlockMaker",
                         "Numbers the sources of blocks of rows; one thread's at a time.")
      .def(nb::init<std::int64_t>(), nb::arg("num_nodes"))
      .def(
          "block", &BlockMaker::block, nb::arg("offsets"), nb::arg("indices"), nb::arg("first"),
          nb::arg("path"),
          nb::sig("def block(self, offsets: object, indices: object, first: int, path: str) -> tuple"),
          "Sources, int64 [M], and edges, int64 [2, E]: the source's place there and the row. The rows' own "
          "nodes come first where `first`, the id of the first, is not -1. `path` names the file in errors.");
  module.def("gather_rows", &gather, nb::arg("ids"), nb::arg("starts"), nb::arg("arrays"), nb::arg("stride"),
             nb::arg("fetched").none(), nb::arg("out"),
             nb::sig("def gather_rows(ids: object, starts: object, arrays: object, stride: int, fetched: "
                     "Fetched | None, out: object) -> None"),
             "Copies rows of arrays that lie one behind the other by id; `arrays` are addresses, 0 where all "
             "rows lie with other machines, of which `fetched` has those that edges come from.");
  module.def("reduce_rows", &reduce, nb::arg("offsets"), nb::arg("sources"), nb::arg("weights").none(),
             nb::arg("starts"), nb::arg("arrays"), nb::arg("stride"), nb::arg("fetched").none(),
             nb::arg("reduction"), nb::arg("out"), nb::arg("threads"), nb::arg("path"),
             nb::sig("def reduce_rows(offsets: object, sources: object, weights: object, starts: object, "
                     "arrays: object, stride: int, fetched: Fetched | None, reduction: str, out: object, "
                     "threads: int, path: str) -> None"),
             "Reduces (sum, max, min) the rows of each row's sources into what `out` has of it.");
  nb::class_<Checksum>(module, "Checksum", "XXH3-64 of bytes that come one part after the other.")
      .def(nb::init<>())
      .def("update", &Checksum::update, nb::arg("array"), nb::sig("def update(self, array: object) -> None"))
      .def("hex", &Checksum::hex, "Of all so far, 16 hex digits.");
}

}  // namespace hopfeed::python
