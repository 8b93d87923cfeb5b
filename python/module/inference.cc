// See inference.h.
#include "python/module/inference.h"

#include <nanobind/ndarray.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/vector.h>

#include <chrono>
#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "core/base/error.h"
#include "core/sampler/peer_rows.h"
#include "peers/open_partitions.h"
#include "peers/results_peers.h"
#include "python/module/given_options.h"
#include "python/module/signals.h"
#include "python/module/stream_options.h"
#include "python/module/truncated_files.h"
#include "results/boundary.h"
#include "results/partition_rows.h"
#include "results/run_folder.h"

namespace nb = nanobind;

namespace hopfeed::python {
namespace {

using Matrix = nb::ndarray<nb::ro, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
using CopiedRows = nb::ndarray<nb::numpy, std::uint8_t>;
using Table = std::pair<std::string, std::string>;  // of a layer: its name and the node type

LayerName named(const Table& table) {
  const LayerName name{.table = table.first, .node_type = table.second};
  require_valid(is_layer_name(name), "'" + table.first + "' of '" + table.second + "' names no table");
  return name;
}

/// PythonRunFolder is a RunFolder that is let go of by close().
class PythonRunFolder {
 public:
  PythonRunFolder(const std::string& folder, const std::string& run, const std::string& about, bool sync)
      : folder_(std::in_place, folder, run_id_of(run), about, sync ? Sync::kYes : Sync::kNo) {}

  RunFolder& get() {
    require_valid(folder_.has_value(), "the run's folder is closed");
    return *folder_;
  }
  bool is_new() { return get().is_new(); }
  void write(const Table& table, int partition, std::int64_t first, const Matrix& rows) {
    const LayerName name = named(table);
    const auto count = static_cast<std::int64_t>(rows.shape(0));
    const ShardRows shard{.partition = partition,
                          .first = first,
                          .count = count,
                          .row_bytes = static_cast<std::int64_t>(rows.shape(1) * rows.itemsize())};
    const std::span bytes(static_cast<const std::byte*>(rows.data()), rows.nbytes());
    const nb::gil_scoped_release released;
    get().layers().write(name, shard, bytes);
  }
  std::string path(const Table& table, int partition, std::int64_t first) {
    return get().layers().shard_path(named(table), partition, first).string();
  }
  void check(const Table& table, int partition, std::int64_t first, std::int64_t count,
             std::int64_t row_bytes) {
    const std::filesystem::path path = get().layers().shard_path(named(table), partition, first);
    const RunId run = get().run();
    const nb::gil_scoped_release released;
    const LayerShard shard(path, run);
    if (shard.first() != first || shard.rows() != count || (count > 0 && shard.row_bytes() != row_bytes))
      throw Error(ErrorCode::kCorrupt, path.string() + " has other rows than were written");
  }
  void remove(const Table& table) { get().remove(named(table)); }
  void remove_fetched(const Table& table) { get().boundary().remove(named(table)); }
  bool fetched(const Table& table, int partition) { return get().fetched(named(table), partition); }
  /// Ends the run: rows of these tables stay until those who have these partitions have fetched them.
  /// Returns whether any are left.
  bool close(const std::vector<Table>& tables, const std::vector<int>& partitions) {
    std::vector<LayerName> names;
    for (const Table& table : tables) names.push_back(named(table));
    const std::filesystem::path path = get().path();
    if (names.empty())
      get().clear();
    else
      get().leave(names, partitions);
    folder_.reset();
    return !names.empty() && !remove_if_fetched(path);
  }
  void let_go() { folder_.reset(); }

 private:
  std::optional<RunFolder> folder_;
};

/// Boundary is a set of nodes whose rows lie with other machines.
struct Boundary {
  std::shared_ptr<const RankedSet> ids;
  int node_type = 0;
};

/// Machines are this one, with its partitions of a dataset, and those that have the others.
class Machines {
 public:
  /// Waits for a server of each other partition.
  Machines(const std::string& folder, const nb::dict& dict) {
    GivenOptions given(dict);
    PeerOptions options = peer_options(given);
    given.require_all_taken();
    deadline_ = options.deadline;
    const nb::gil_scoped_release released;
    dataset_ = open_partitions(folder, options, PeersAt::kKnown, HugePages::kAuto, look_for_signals);
    if (dataset_->whole()) return;
    peers_ =
        std::make_unique<ResultsPeers>(dataset_->meta(), dataset_->partitions(), options, look_for_signals);
  }

  void wait_until_fetched(const std::string& folder, const std::string& run) const {
    const nb::gil_scoped_release released;
    hopfeed::wait_until_fetched(folder, run_id_of(run), deadline_, look_for_signals);
  }
  std::vector<int> partitions() const { return dataset_->partitions(); }

  Boundary boundary(int node_type, const std::vector<int>& edge_types) const {
    const nb::gil_scoped_release released;
    require_whole_files();
    return {.ids = std::make_shared<RankedSet>(boundary_of(*dataset_, node_type, edge_types)),
            .node_type = node_type};
  }

  /// Brings rows of an attribute, for `boundary`.
  std::unique_ptr<Fetched> fetch_attribute(PythonRunFolder& folder, const Table& table,
                                           const Boundary& boundary, const std::string& attribute) const {
    const auto row_bytes = dataset_->attr(boundary.node_type, attribute).row_bytes;
    return fetch(folder, table, boundary, row_bytes,
                 [&](int, std::span<const std::uint32_t>, std::span<const std::int64_t> ids, std::byte* out) {
                   gather_rows_of_all(*dataset_, Store::kNode, boundary.node_type, attribute, ids, out);
                 });
  }
  /// Brings rows that other machines compute.
  std::unique_ptr<Fetched> fetch_layer(PythonRunFolder& folder, const Table& table, const Boundary& boundary,
                                       std::int64_t row_bytes) const {
    const RunId run = folder.get().run();
    const LayerName name = named(table);
    auto fetched = fetch(folder, table, boundary, row_bytes,
                         [&](int part, std::span<const std::uint32_t> rows, std::span<const std::int64_t>,
                             std::byte* out) { peers_->fetch(run, name, part, rows, row_bytes, out); });
    return fetched;
  }
  bool note_fetched(PythonRunFolder& folder, const Table& table, bool wait) const {
    const RunId run = folder.get().run();
    const nb::gil_scoped_release released;
    return peers_->note_fetched(run, named(table), wait);
  }

 private:
  std::unique_ptr<Fetched> fetch(PythonRunFolder& folder, const Table& table, const Boundary& boundary,
                                 std::int64_t row_bytes, const BoundaryFetch& bring) const {
    const LayerName name = named(table);
    const RunFolder& run = folder.get();
    const auto& offsets =
        dataset_->meta().node_types[static_cast<std::size_t>(boundary.node_type)].partition_offsets;
    const nb::gil_scoped_release released;
    const auto looking = [&](int part, std::span<const std::uint32_t> rows, std::span<const std::int64_t> ids,
                             std::byte* out) {
      look_for_signals();
      bring(part, rows, ids, out);
    };
    fetch_boundary(run, name, *boundary.ids, offsets, row_bytes, shard_rows(row_bytes), looking);
    const auto rows =
        std::make_shared<const PartitionRows>(run.boundary(), name, 0, boundary.ids->size(), row_bytes);
    return std::make_unique<Fetched>(Fetched{.ids = boundary.ids,
                                             .keeps = rows,
                                             .rows = rows->data(),
                                             .row_bytes = static_cast<std::size_t>(row_bytes)});
  }

  std::chrono::milliseconds deadline_{0};
  std::unique_ptr<Dataset> dataset_;
  std::unique_ptr<ResultsPeers> peers_;
};

/// Rows from the `first` on, uint8 [count, row_bytes].
CopiedRows rows_of(const Fetched& fetched, std::int64_t first, std::int64_t count) {
  require_valid(first >= 0 && count >= 0 && first + count <= fetched.ids->size(), "there are no such rows");
  const std::size_t bytes = static_cast<std::size_t>(count) * fetched.row_bytes;
  auto copy = std::make_unique_for_overwrite<std::uint8_t[]>(bytes);
  {
    const nb::gil_scoped_release released;
    require_whole_files();
    if (bytes > 0)
      std::memcpy(copy.get(), fetched.rows + static_cast<std::size_t>(first) * fetched.row_bytes, bytes);
  }
  std::uint8_t* const data = copy.release();
  const nb::capsule owner(data, [](void* p) noexcept { delete[] static_cast<std::uint8_t*>(p); });
  return CopiedRows(data, {static_cast<std::size_t>(count), fetched.row_bytes}, owner);
}

/// The same nodes with the rows of a matrix, which lies in memory of Python's.
std::unique_ptr<Fetched> of_columns(const Fetched& fetched, const Matrix& rows) {
  require_valid(static_cast<std::int64_t>(rows.shape(0)) == fetched.ids->size(), "rows that do not agree");
  return std::make_unique<Fetched>(Fetched{.ids = fetched.ids,
                                           .keeps = std::make_shared<const Matrix>(rows),
                                           .rows = static_cast<const std::byte*>(rows.data()),
                                           .row_bytes = rows.shape(1) * rows.itemsize()});
}

void bind_run_folder(nb::module_& module) {
  nb::class_<PythonRunFolder>(module, "RunFolder",
                              "The folder of a run's tables; a table is (name, node type). The lock is held "
                              "until close() or let_go().")
      .def(nb::init<const std::string&, const std::string&, const std::string&, bool>(), nb::arg("folder"),
           nb::arg("run"), nb::arg("about"), nb::arg("sync"))
      .def_prop_ro("is_new", &PythonRunFolder::is_new, "Whether nothing of an earlier process was there.")
      .def("write", &PythonRunFolder::write, nb::arg("table"), nb::arg("partition"), nb::arg("first"),
           nb::arg("rows"),
           nb::sig(
               "def write(self, table: tuple[str, str], partition: int, first: int, rows: object) -> None"),
           "Writes a shard: synced, then renamed.")
      .def("path", &PythonRunFolder::path, nb::arg("table"), nb::arg("partition"), nb::arg("first"),
           "The file of a shard, which has its rows at its begin.")
      .def("check", &PythonRunFolder::check, nb::arg("table"), nb::arg("partition"), nb::arg("first"),
           nb::arg("count"), nb::arg("row_bytes"), "Raises unless the shard is whole and has these rows.")
      .def("remove", &PythonRunFolder::remove, nb::arg("table"), "Removes a table that this machine made.")
      .def("remove_fetched", &PythonRunFolder::remove_fetched, nb::arg("table"),
           "Removes a table's rows of other machines.")
      .def("fetched", &PythonRunFolder::fetched, nb::arg("table"), nb::arg("partition"),
           "Whether who has the partition needs no more of the table.")
      .def("close", &PythonRunFolder::close, nb::arg("tables"), nb::arg("partitions"),
           "Ends the run: these tables stay until those with these partitions have fetched them. Whether any "
           "do.")
      .def("let_go", &PythonRunFolder::let_go, "Lets go of the lock; the run may go on later.");
}

}  // namespace

void bind_inference(nb::module_& module) {
  bind_run_folder(module);
  module.def(
      "folder_has_run",
      [](const std::string& folder, const std::string& run) { return has_run(folder, run_id_of(run)); },
      nb::arg("folder"), nb::arg("run"), "Whether the folder is the run's now.");
  nb::class_<Boundary>(module, "Boundary", "Nodes of a type whose rows lie with other machines.")
      .def("__len__", [](const Boundary& boundary) { return boundary.ids->size(); });
  nb::class_<Fetched>(module, "Fetched", "Rows of a boundary, by rising id.")
      .def("__len__", [](const Fetched& fetched) { return fetched.ids->size(); })
      .def("rows", &rows_of, nb::arg("first"), nb::arg("count"),
           nb::sig("def rows(self, first: int, count: int) -> object"),
           "Copies of rows, uint8 [count, bytes].")
      .def("of_columns", &of_columns, nb::arg("rows"),
           nb::sig("def of_columns(self, rows: object) -> Fetched"), "The same nodes with other rows.");
  nb::class_<Machines>(module, "Machines", "This machine's partitions of a dataset, and who has the others.")
      .def(nb::init<const std::string&, const nb::dict&>(), nb::arg("folder"), nb::arg("options"))
      .def_prop_ro("partitions", &Machines::partitions, "Those that are here.")
      .def("boundary", &Machines::boundary, nb::arg("node_type"), nb::arg("edge_types"),
           "Nodes elsewhere that edges of these types come from, by the types' numbers.")
      .def("fetch_attribute", &Machines::fetch_attribute, nb::arg("folder"), nb::arg("table"),
           nb::arg("boundary"), nb::arg("attribute"))
      .def("fetch_layer", &Machines::fetch_layer, nb::arg("folder"), nb::arg("table"), nb::arg("boundary"),
           nb::arg("row_bytes"), "Waits for rows while they are computed.")
      .def("wait_until_fetched", &Machines::wait_until_fetched, nb::arg("folder"), nb::arg("run"),
           "Waits, not for longer than the deadline, until others have what another run has left them.")
      .def("note_fetched", &Machines::note_fetched, nb::arg("folder"), nb::arg("table"), nb::arg("wait"),
           "Tells the others that no more of a table is needed. Whether all have noted it.");
}

}  // namespace hopfeed::python
