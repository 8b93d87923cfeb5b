// See tables.h.
#include "python/module/tables.h"

#include <fmt/format.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/map.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "core/base/error.h"
#include "core/base/limits.h"
#include "core/dataset/meta_file.h"
#include "core/dataset/node_keys.h"
#include "partition_tool/tables/arrow_abi.h"
#include "partition_tool/tables/arrow_stream.h"
#include "partition_tool/tables/column_shard.h"
#include "partition_tool/tables/dataset_draft.h"
#include "partition_tool/tables/edge_shard.h"
#include "partition_tool/tables/finish_dataset.h"
#include "partition_tool/tables/id_shard.h"
#include "partition_tool/tables/node_shard.h"
#include "python/module/signals.h"

namespace nb = nanobind;

namespace hopfeed::python {
namespace {

using Ids = nb::ndarray<const std::int64_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Each = std::optional<nb::callable>;

int all_threads() { return static_cast<int>(std::max(1U, std::thread::hardware_concurrency())); }

std::span<const std::int64_t> as_span(const Ids& ids) { return {ids.data(), ids.size()}; }

/// What any library hands a table over in (the Arrow PyCapsule interface). The caller holds the GIL; the
/// capsule must outlive the stream.
ArrowArrayStream* stream_in(const nb::object& capsule) {
  void* const stream = PyCapsule_GetPointer(capsule.ptr(), "arrow_array_stream");
  if (stream == nullptr) throw nb::python_error();
  return static_cast<ArrowArrayStream*>(stream);
}

nb::object capsule_of(const nb::object& table) {
  require_valid(nb::hasattr(table, "__arrow_c_stream__"), "a table is of type " +
                                                              nb::cast<std::string>(nb::str(table.type())) +
                                                              ", which has no __arrow_c_stream__");
  return table.attr("__arrow_c_stream__")();
}

/// Reads a table to its end without the GIL: `body(stream)`. Python looks for signals, and hears how many
/// rows came, between two batches.
template <class Body>
auto reading(const nb::object& table, const Each& each, const Body& body) {
  const nb::object capsule = capsule_of(table);
  ArrowArrayStream* const given = stream_in(capsule);
  const nb::gil_scoped_release released;
  ArrowStream stream(given, [&](std::int64_t rows) {
    look_for_signals();
    if (!each) return;
    const nb::gil_scoped_acquire gil;
    (*each)(rows);
  });
  return body(stream);
}

void bind_shards(nb::module_& module) {
  module.def(
      "write_node_shard",
      [](const nb::object& stream, const std::string& draft, int node_type, int partition,
         const std::string& folder, const Each& progress) {
        reading(stream, progress, [&](ArrowStream& rows) {
          write_node_shard(rows, parse_draft(draft), node_type, partition, folder);
        });
      },
      nb::arg("stream"), nb::arg("draft"), nb::arg("node_type"), nb::arg("partition"), nb::arg("folder"),
      nb::arg("progress").none() = nb::none(),
      nb::sig("def write_node_shard(stream: object, draft: str, node_type: int, partition: int, folder: str, "
              "progress: object | None = None) -> None"),
      "Makes the shard of a partition's nodes of a type (partition_tool/tables/node_shard.h). "
      "progress(rows).");
  module.def(
      "write_edge_shard",
      [](const nb::object& stream, const std::string& draft, int edge_type, int partition,
         const std::string& folder, const Ids& original_ids, const std::optional<Ids>& first_edge_ids,
         const std::map<std::string, Ids>& bounds, std::size_t memory, const Each& progress) {
        EdgeShardOptions options{
            .edge_type = edge_type,
            .partition = partition,
            .original_ids = as_span(original_ids),
            .first_edge_ids = first_edge_ids ? as_span(*first_edge_ids) : std::span<const std::int64_t>(),
            .time_bounds = {},
            .threads = all_threads(),
            .max_row_bytes = memory};
        for (const auto& [time, of_all] : bounds)
          options.time_bounds[time].assign(of_all.data(), of_all.data() + of_all.size());
        reading(stream, progress,
                [&](ArrowStream& rows) { write_edge_shard(rows, parse_draft(draft), options, folder); });
      },
      nb::arg("stream"), nb::arg("draft"), nb::arg("edge_type"), nb::arg("partition"), nb::arg("folder"),
      nb::arg("original_ids"), nb::arg("first_edge_ids").none(), nb::arg("bounds"),
      nb::arg("memory") = std::size_t{512} << 20, nb::arg("progress").none() = nb::none(),
      nb::sig("def write_edge_shard(stream: object, draft: str, edge_type: int, partition: int, folder: str, "
              "original_ids: object, first_edge_ids: object | None, bounds: dict[str, object], memory: int = "
              "536870912, progress: object | None = None) -> None"),
      "Makes the shard of a partition's edges of a type (partition_tool/tables/edge_shard.h). "
      "progress(rows).");
  module.def(
      "write_column",
      [](const nb::object& stream, const std::string& draft, const std::string& kind, int number,
         const std::string& name, const std::string& folder, const Each& progress) {
        const ColumnShardOptions options{.kind = kind, .type = number, .name = name};
        reading(stream, progress,
                [&](ArrowStream& rows) { write_column_shard(rows, parse_draft(draft), options, folder); });
      },
      nb::arg("stream"), nb::arg("draft"), nb::arg("kind"), nb::arg("number"), nb::arg("name"),
      nb::arg("folder"), nb::arg("progress").none() = nb::none(),
      nb::sig("def write_column(stream: object, draft: str, kind: str, number: int, name: str, folder: str, "
              "progress: object | None = None) -> None"),
      "Makes the shard of one array that belongs to no partition (partition_tool/tables/column_shard.h).");
  module.def(
      "write_id_shard",
      [](const std::string& draft, int partition, const std::vector<std::string>& shards,
         const std::string& folder) {
        const nb::gil_scoped_release released;
        const std::vector<std::filesystem::path> folders(shards.begin(), shards.end());
        write_id_shard(parse_draft(draft), partition, folders, folder);
      },
      nb::arg("draft"), nb::arg("partition"), nb::arg("shards"), nb::arg("folder"),
      nb::sig("def write_id_shard(draft: str, partition: int, shards: list[str], folder: str) -> None"),
      "Makes the shard of a partition's ids, of shards that are there (partition_tool/tables/id_shard.h).");
}

std::vector<std::uint64_t> hashes_of(ArrowStream& stream, std::uint64_t seed) {
  std::vector<std::uint64_t> hashes;
  const ArrowType type = stream.type(0);
  const std::size_t width =
      type.kind == ArrowType::Kind::kFixedBytes ? static_cast<std::size_t>(type.width) : sizeof(std::int64_t);
  require_valid(
      type.kind != ArrowType::Kind::kNumbers || (type.element == ElementType::kInt64 && !type.is_list),
      "keys are " + to_string(type) + "; int64, text and bytes can be hashed");
  std::vector<std::byte> bytes;
  while (const std::optional<ArrowBatch> batch = stream.next()) {
    const ArrowColumn column = stream.column_of(*batch, 0);
    const bool text = type.kind == ArrowType::Kind::kText;
    bytes.resize(text ? 0 : static_cast<std::size_t>(batch->rows()) * width);
    if (!text) column.read(0, batch->rows(), bytes);
    for (std::int64_t i = 0; i < batch->rows(); ++i)
      hashes.push_back(key_hash(text ? column.text(i)
                                     : std::string_view(reinterpret_cast<const char*>(bytes.data()) +
                                                            static_cast<std::size_t>(i) * width,
                                                        width),
                                seed));
  }
  return hashes;
}

/// A whole number of Python or NumPy.
std::int64_t number_of(nb::handle key) {
  if (PyIndex_Check(key.ptr()) != 0) {
    const nb::object number = nb::steal(PyNumber_Index(key.ptr()));
    int beyond = 0;
    const long long value = number.is_valid() ? PyLong_AsLongLongAndOverflow(number.ptr(), &beyond) : 0;
    if (PyErr_Occurred() != nullptr) throw nb::python_error();
    if (beyond == 0) return value;
  }
  throw Error(ErrorCode::kInvalid,
              fmt::format("{} is no key; give int (64 bits), str, or the 16 bytes of a UUID",
                          nb::cast<std::string>(nb::repr(key))));
}

/// The keys of a node type of a dataset on disk.
class PythonKeys {
 public:
  PythonKeys(const std::string& folder, const NodeTypeMeta& node) : keys_(folder, node) {}

  nb::list of(const Ids& nodes) const {
    nb::list keys;
    for (const std::int64_t node : as_span(nodes)) {
      require_valid(node >= 0 && node < keys_.size(),
                    fmt::format("there is no node {}: the type has {}", node, keys_.size()));
      if (keys_.type() == KeyType::kInt64)
        keys.append(keys_.number(node));
      else if (keys_.type() == KeyType::kUuid)
        keys.append(nb::bytes(keys_.bytes(node).data(), keys_.bytes(node).size()));
      else
        keys.append(nb::str(keys_.bytes(node).data(), keys_.bytes(node).size()));
    }
    return keys;
  }
  /// Keys are int, str, or bytes of UUIDs.
  nb::list ids(const nb::sequence& keys) const {
    nb::list nodes;
    for (const nb::handle key : keys) {
      if (nb::isinstance<nb::bytes>(key)) {
        const auto bytes = nb::cast<nb::bytes>(key);
        nodes.append(keys_.find(std::string_view(bytes.c_str(), bytes.size())));
      } else if (nb::isinstance<nb::str>(key)) {
        nodes.append(keys_.find(nb::cast<std::string>(key)));
      } else {
        nodes.append(keys_.find(number_of(key)));
      }
    }
    return nodes;
  }
  std::int64_t size() const { return keys_.size(); }
  const char* type() const { return to_string(keys_.type()); }

 private:
  NodeKeys keys_;
};

void bind_keys(nb::module_& module) {
  module.def(
      "hash_keys",
      [](const nb::object& stream, std::uint64_t seed) {
        auto* const hashes = new std::vector<std::uint64_t>(
            reading(stream, std::nullopt, [&](ArrowStream& rows) { return hashes_of(rows, seed); }));
        const nb::capsule owner(hashes,
                                [](void* p) noexcept { delete static_cast<std::vector<std::uint64_t>*>(p); });
        return nb::ndarray<nb::numpy, std::uint64_t, nb::ndim<1>>(hashes->data(), {hashes->size()}, owner);
      },
      nb::arg("stream"), nb::arg("seed"), nb::sig("def hash_keys(stream: object, seed: int) -> object"),
      "XXH3-64, with a seed, of each key in a table's first column: int64, text or bytes.");
  nb::class_<PythonKeys>(module, "NodeKeys", "The keys of a node type, in the order of original ids.")
      .def(
          "__init__",
          [](PythonKeys* self, const std::string& folder, const std::string& node_type) {
            const DatasetMeta meta = read_meta(folder);
            new (self)
                PythonKeys(folder, meta.node_types[static_cast<std::size_t>(meta.node_type(node_type))]);
          },
          nb::arg("folder"), nb::arg("node_type"))
      .def("keys", &PythonKeys::of, nb::arg("nodes"), nb::sig("def keys(self, nodes: object) -> list"),
           "The keys of original ids: int, str, or bytes of UUIDs.")
      .def("ids", &PythonKeys::ids, nb::arg("keys"), nb::sig("def ids(self, keys: list) -> list[int]"),
           "The original ids of keys; -1 where no node has one.")
      .def("__len__", &PythonKeys::size)
      .def_prop_ro("type", &PythonKeys::type);
}

}  // namespace

void bind_tables(nb::module_& module) {
  bind_shards(module);
  bind_keys(module);
  module.def(
      "finish_dataset",
      [](const std::string& draft, const std::string& out, const std::vector<std::string>& shards,
         const std::string& made_by, bool overwrite, const std::string& tables) {
        const nb::gil_scoped_release released;
        return finish_dataset(parse_draft(draft), {.folder = out,
                                                   .shards = {shards.begin(), shards.end()},
                                                   .made_by = made_by,
                                                   .tables = tables,
                                                   .overwrite = overwrite,
                                                   .threads = all_threads()})
            .meta.fingerprint;
      },
      nb::arg("draft"), nb::arg("out"), nb::arg("shards"), nb::arg("made_by"), nb::arg("overwrite"),
      nb::arg("tables"),
      nb::sig("def finish_dataset(draft: str, out: str, shards: list[str], made_by: str, overwrite: bool, "
              "tables: str) -> str"),
      "Makes a dataset of shards, and returns its fingerprint (partition_tool/tables/finish_dataset.h).");
}

}  // namespace hopfeed::python
