// See state.h.
#include "python/module/state.h"

#include <fmt/format.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "core/base/error.h"
#include "core/dataset/dataset_meta.h"
#include "peers/state_owners.h"
#include "python/module/errors.h"
#include "python/module/given_options.h"
#include "python/module/signals.h"
#include "python/module/stream_options.h"
#include "server_client_mode/client/remote_loader.h"
#include "server_client_mode/client/remote_owners.h"
#include "state/client/dist_rows.h"
#include "state/client/dist_tensor.h"
#include "state/table/row_sums.h"

namespace nb = nanobind;

namespace hopfeed::python {
namespace {

using Ids = GivenArray<std::int64_t, 1>;
using Numbers = GivenArray<float, 1>;
using Raw = GivenArray<std::uint8_t, 1>;  // rows of any type, as they lie in memory
using RawOut = nb::ndarray<std::uint8_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using NumbersOut = nb::ndarray<float, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

std::span<const std::int64_t> span_of(const Ids& ids) { return {ids.data(), ids.size()}; }

void require_size(std::size_t given, std::size_t wanted) {
  require_valid(given == wanted, fmt::format("an array has {} elements in place of {}", given, wanted));
}

// ---- what waits

/// Of the table that this thread waits for.
thread_local const std::atomic<bool>* closing = nullptr;

/// Of this thread, where it waits for no longer.
thread_local std::optional<std::chrono::steady_clock::time_point> until;

void look_around() {
  if (until && std::chrono::steady_clock::now() > *until)
    throw Error(ErrorCode::kTimeout, "its owners have not said that they know of this rank's end");
  if (closing != nullptr && *closing)
    throw Error(ErrorCode::kInvalid, "the table was closed by another thread while this one waited");
  look_for_signals();
}

class WaitsFor {
 public:
  explicit WaitsFor(const std::atomic<bool>& table_closes) { closing = &table_closes; }
  ~WaitsFor() { closing = nullptr; }
  WaitsFor(const WaitsFor&) = delete;
  WaitsFor& operator=(const WaitsFor&) = delete;
};

/// Does `body` without the GIL.
template <class Body>
auto waiting(const std::atomic<bool>& table_closes, Body body) {
  const nb::gil_scoped_release released;
  const WaitsFor waits(table_closes);
  return body();
}

// ---- owners

/// What options of machines with partitions are called here.
std::string keyword_of(std::string_view field) {
  if (field == "peers") return "servers";
  if (field == "peer_deadline") return "reconnect_deadline";
  if (field == "peer_connect_timeout") return "connect_timeout";
  if (field == "peer_token_file") return "token_file";
  constexpr std::string_view kPeer = "peer_";
  return field.starts_with(kPeer) ? "tls_" + std::string(field.substr(kPeer.size())) : std::string(field);
}

/// A process that was forked has no network's thread, and cannot end one: what it has of its parent stays.
class OfThisProcess {
 public:
  bool is_this() const { return getpid() == process_; }
  void require() const {
    require_valid(
        is_this(),
        fmt::format("this belongs to process {}, and this is a fork of it, {}; connect to the owners "
                    "of state in each process",
                    process_, getpid()));
  }
  template <class T>
  void drop(std::shared_ptr<T>& held) const {
    if (is_this())
      held.reset();
    else if (held)
      new std::shared_ptr<T>(std::move(held));  // NOLINT(cppcoreguidelines-owning-memory): never destroyed
  }

 private:
  const pid_t process_ = getpid();
};

/// PythonOwners are the servers that own the state of a dataset.
class PythonOwners {
 public:
  /// The caller does not hold the GIL.
  explicit PythonOwners(RemoteExecution remote) {
    remote.while_waiting = look_for_signals;
    meta_ = RemoteStreams(remote).meta();
    try {
      const PeerOptions options = owners_among(remote);
      options.validate();
      network_ = std::make_shared<StateOwners>(meta_, options, look_around);
    } catch (const Error& error) {
      throw Error(error.code(), spelled(error.message(), keyword_of));
    }
  }
  ~PythonOwners() { here_.drop(network_); }
  PythonOwners(const PythonOwners&) = delete;
  PythonOwners& operator=(const PythonOwners&) = delete;

  const DatasetMeta& meta() const { return meta_; }
  std::shared_ptr<StateOwners> network() const {
    here_.require();
    require_valid(network_ != nullptr, "the connections to the owners of state are closed; connect anew");
    return network_;
  }
  void close() { here_.drop(network_); }

 private:
  const OfThisProcess here_;
  DatasetMeta meta_;
  std::shared_ptr<StateOwners> network_;
};

TableSpec table_spec(const nb::dict& options, TableSpec::Kind kind) {
  GivenOptions given(options);
  TableSpec spec;
  spec.kind = kind;
  spec.visit(given);
  given.require_all_taken();
  return spec;
}

// ---- checkpoints

/// A ShardSum, in its order.
using Shard = std::tuple<std::int64_t, std::int64_t, std::int64_t, std::uint64_t>;

std::vector<Shard> told(const std::vector<ShardSum>& sums) {
  std::vector<Shard> shards;
  for (const ShardSum& sum : sums) shards.emplace_back(sum.first_partition, sum.rows, sum.bytes, sum.xxh3);
  return shards;
}

std::vector<ShardSum> sums_of(const std::vector<Shard>& shards) {
  std::vector<ShardSum> sums;
  for (const auto& [first_partition, rows, bytes, xxh3] : shards)
    sums.push_back({.first_partition = first_partition, .rows = rows, .bytes = bytes, .xxh3 = xxh3});
  return sums;
}

// ---- rows that anybody writes

class PythonTensor {
  template <class Body>
  auto with(Body body) {
    here_.require();
    std::shared_ptr<DistTensor> tensor = tensor_;  // with the GIL, as close() has it
    require_valid(tensor != nullptr, "the table is closed; open it again");
    return waiting(closing_, [&] { return body(*tensor); });
  }

 public:
  PythonTensor(const PythonOwners& owners, const TableSpec& spec, const RankOfRun& run)
      : tensor_(waiting(
            closing_,
            [&] { return std::make_shared<DistTensor>(owners.network(), owners.meta(), spec, run); })),
        rows_(tensor_->rows()),
        row_bytes_(static_cast<std::size_t>(spec.row_bytes())) {}
  ~PythonTensor() { here_.drop(tensor_); }
  PythonTensor(const PythonTensor&) = delete;
  PythonTensor& operator=(const PythonTensor&) = delete;

  std::int64_t rows() const { return rows_; }
  void pull(const Ids& ids, const RawOut& out) {
    require_size(out.size(), ids.size() * row_bytes_);
    with([&](DistTensor& tensor) { tensor.pull(span_of(ids), reinterpret_cast<std::byte*>(out.data())); });
  }
  void push(const Ids& ids, const Raw& rows) {
    with([&](DistTensor& tensor) { tensor.push(span_of(ids), bytes_of(rows)); });
  }
  void add(const Ids& ids, const Raw& rows) {
    with([&](DistTensor& tensor) { tensor.add(span_of(ids), bytes_of(rows)); });
  }
  std::vector<Shard> save(std::uint64_t checkpoint) {
    return with([&](DistTensor& tensor) { return told(tensor.save(checkpoint)); });
  }
  void restore(std::uint64_t checkpoint, const std::vector<Shard>& shards) {
    with([&](DistTensor& tensor) { tensor.restore(checkpoint, sums_of(shards)); });
  }
  void keep(const std::vector<std::int64_t>& checkpoints) {
    with([&](DistTensor& tensor) { tensor.keep(checkpoints); });
  }
  /// The caller holds the GIL, as all above; what other threads wait for ends with an error.
  void close() {
    closing_ = true;
    here_.drop(tensor_);
  }

 private:
  static std::span<const std::byte> bytes_of(const Raw& rows) {
    return std::as_bytes(std::span(rows.data(), rows.size()));
  }

  const OfThisProcess here_;
  std::atomic<bool> closing_{false};
  std::shared_ptr<DistTensor> tensor_;
  std::int64_t rows_ = 0;
  std::size_t row_bytes_ = 0;
};

// ---- rows that ranks learn

class PythonRows {
  /// Learning ends with whatever an owner or the network has refused; files that could not be written or
  /// removed end nothing.
  enum class Purpose { kLearn, kFiles };
  static bool ends(const Error& error, Purpose purpose) {
    return error.code() == ErrorCode::kPeerDied || error.code() == ErrorCode::kStateLost ||
           (purpose == Purpose::kLearn && error.code() != ErrorCode::kInvalid);
  }

  /// One call at a time. After what ends it nothing goes on, and other ranks hear so at once: they may wait
  /// for this one, and it may wait for them elsewhere before it goes back to a checkpoint.
  template <class Body>
  auto with(Body body, Purpose purpose = Purpose::kLearn) {
    here_.require();
    return waiting(closing_, [&] {
      const std::lock_guard lock(mutex_);
      require_valid(rows_ != nullptr, "the table is closed; open it again");
      if (failed_) throw *failed_;
      try {
        return body(*rows_);
      } catch (const Error& error) {
        if (ends(error, purpose)) {
          failed_ = error;
          rows_->give_up();
        }
        throw;
      }
    });
  }

 public:
  PythonRows(const PythonOwners& owners, const TableSpec& spec, const RankOfRun& rank)
      : rows_(
            waiting(closing_,
                    [&] { return std::make_shared<DistRows>(owners.network(), owners.meta(), spec, rank); })),
        count_(rows_->rows()),
        width_(static_cast<std::size_t>(spec.width)) {}
  /// The caller holds the GIL.
  ~PythonRows() {
    const nb::gil_scoped_release released;
    here_.drop(rows_);
  }
  PythonRows(const PythonRows&) = delete;
  PythonRows& operator=(const PythonRows&) = delete;

  std::int64_t rows() const { return count_; }
  std::int64_t next_step() {
    return with([&](DistRows& rows) { return rows.next_step(); });
  }
  std::int64_t steps_looked_at() {
    return with([&](DistRows& rows) { return static_cast<std::int64_t>(rows.steps_looked_at()); });
  }
  void look(const Ids& ids) {
    with([&](DistRows& rows) { look_at(rows, span_of(ids)); });
  }
  /// Rows of lookups, of those that the step has looked at; where it has looked at none, it does so now.
  void read(const Ids& ids, const NumbersOut& out) {
    require_size(out.size(), ids.size() * width_);
    with([&](DistRows& rows) {
      if (rows.steps_looked_at() == 0) look_at(rows, span_of(ids));
      const std::vector<std::size_t> places = places_of(rows, span_of(ids));
      if (!values_) {
        std::vector<float> values(rows.ids().size() * width_);
        rows.read(values.data());
        values_ = std::move(values);
      }
      for (std::size_t i = 0; i < places.size(); ++i)
        std::memcpy(out.data() + i * width_, values_->data() + places[i] * width_, width_ * sizeof(float));
    });
  }
  /// Brings the gradients of lookups, in their order.
  void step(const Ids& ids, const Numbers& gradients) {
    require_size(gradients.size(), ids.size() * width_);
    with([&](DistRows& rows) {
      const RowGroups groups(span_of(ids));
      std::vector<float> sums(groups.rows().size() * width_);
      groups.sum(gradients.data(), static_cast<std::int64_t>(width_), sums.data(), serial_for);
      rows.step({groups.rows(), sums.data()});
      values_.reset();
    });
  }
  void pull(const Ids& ids, const NumbersOut& out) {
    require_size(out.size(), ids.size() * width_);
    with([&](DistRows& rows) { rows.pull(span_of(ids), out.data()); });
  }
  /// What was brought so far, and the checkpoint of it.
  std::pair<std::int64_t, std::vector<Shard>> save(std::uint64_t checkpoint) {
    return with(
        [&](DistRows& rows) {
          return std::pair{rows.next_step(), told(rows.save(checkpoint))};
        },
        Purpose::kFiles);
  }
  void restore(std::uint64_t checkpoint, const std::vector<Shard>& shards) {
    with([&](DistRows& rows) { rows.restore(checkpoint, sums_of(shards)); });
  }
  void keep(const std::vector<std::int64_t>& checkpoints) {
    with([&](DistRows& rows) { rows.keep(checkpoints); }, Purpose::kFiles);
  }
  /// Leaves, and waits for the owners' word, no longer than `seconds` where that is given. The caller holds
  /// the GIL, as in give_up().
  void close(std::optional<double> seconds) {
    end([&](DistRows& rows) {
      if (seconds)
        until = std::chrono::steady_clock::now() +
                std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::duration<double>(*seconds));
      const auto forget = [](void*) { until.reset(); };
      const std::unique_ptr<void, decltype(forget)> at_the_end(&rows, forget);
      try {
        rows.leave();
      } catch (const Error& error) {
        throw Error(error.code(), fmt::format("table '{}': {}", rows.spec().name, error.message()));
      }
    });
  }
  /// Leaves, and does not wait: owners may be gone.
  void give_up() {
    end([](DistRows& rows) { rows.give_up(); });
  }

 private:
  template <class Leave>
  void end(Leave leave) {
    if (!here_.is_this()) return;
    closing_ = true;
    const std::atomic<bool> this_one_waits_on{false};
    waiting(this_one_waits_on, [&] {
      const std::lock_guard lock(mutex_);
      const std::shared_ptr<DistRows> rows = std::exchange(rows_, nullptr);
      if (!rows || failed_) return;
      try {
        leave(*rows);
      } catch (const Error& error) {  // where the table is gone, nobody waits for this rank
        if (error.code() != ErrorCode::kStateLost) throw;
      }
    });
  }
  static void look_at(DistRows& rows, std::span<const std::int64_t> lookups) {
    std::vector<std::int64_t> ids(lookups.begin(), lookups.end());
    std::ranges::sort(ids);
    ids.erase(std::ranges::unique(ids).begin(), ids.end());
    rows.look(std::move(ids));
  }
  static std::vector<std::size_t> places_of(const DistRows& rows, std::span<const std::int64_t> lookups) {
    const std::vector<std::int64_t>& looked = rows.ids();
    std::vector<std::size_t> places;
    places.reserve(lookups.size());
    for (const std::int64_t id : lookups) {
      const auto found = std::ranges::lower_bound(looked, id);
      require_valid(
          found != looked.end() && *found == id,
          fmt::format("node {} (dataset id) is looked up in step {} of table '{}', which has looked "
                      "at others; name all that a step reads in one look()",
                      id, rows.next_step(), rows.spec().name));
      places.push_back(static_cast<std::size_t>(found - looked.begin()));
    }
    return places;
  }
  const OfThisProcess here_;
  std::atomic<bool> closing_{false};
  std::mutex mutex_;  // never with the GIL
  std::shared_ptr<DistRows> rows_;
  std::optional<std::vector<float>> values_;  // of the rows that this step reads, once they have come
  std::optional<Error> failed_;
  std::int64_t count_ = 0;
  std::size_t width_ = 0;
};

void bind_owners(nb::module_& module) {
  nb::class_<PythonOwners>(module, "StateOwners", "The servers that own the state of a dataset's partitions.")
      .def(
          "__init__",
          [](PythonOwners* self, const nb::dict& options) {
            RemoteExecution remote = remote_options(options);
            const nb::gil_scoped_release released;
            new (self) PythonOwners(std::move(remote));
          },
          nb::arg("options"), nb::sig("def __init__(self, options: dict[str, object]) -> None"),
          "Connects. The options are those of hopfeed.state.connect.")
      .def_prop_ro(
          "meta_text", [](const PythonOwners& self) { return format_meta(self.meta()); },
          "The dataset's meta.json.")
      .def_prop_ro(
          "num_owners", [](const PythonOwners& self) { return self.network()->num_owners(); },
          "Servers that own partitions.")
      .def("close", &PythonOwners::close, "Ends the connections, once the tables are closed.");
}

void bind_tensor(nb::module_& module) {
  nb::class_<PythonTensor>(module, "StateTensor", "A row for each node of a type, which anybody writes.")
      .def(
          "__init__",
          [](PythonTensor* self, const PythonOwners& owners, const nb::dict& table, std::uint64_t run,
             std::uint32_t attempt) {
            new (self) PythonTensor(owners, table_spec(table, TableSpec::Kind::kTensor),
                                    {.run = run, .attempt = attempt});
          },
          nb::arg("owners"), nb::arg("table"), nb::arg("run"), nb::arg("attempt"),
          nb::sig("def __init__(self, owners: StateOwners, table: dict[str, object], run: int, attempt: int) "
                  "-> None"),
          "Opens or makes the table. The run is that of its checkpoints; 0: it has none.")
      .def_prop_ro("rows", &PythonTensor::rows, "Nodes of the type.")
      .def("pull", &PythonTensor::pull, nb::arg("ids").noconvert(), nb::arg("out").noconvert(),
           nb::sig("def pull(self, ids: object, out: object) -> None"),
           "Writes rows, as uint8, by dataset id.")
      .def("push", &PythonTensor::push, nb::arg("ids").noconvert(), nb::arg("rows").noconvert(),
           nb::sig("def push(self, ids: object, rows: object) -> None"), "Puts rows, as uint8, there.")
      .def("add", &PythonTensor::add, nb::arg("ids").noconvert(), nb::arg("rows").noconvert(),
           nb::sig("def add(self, ids: object, rows: object) -> None"), "Adds rows to those that are there.")
      .def("save", &PythonTensor::save, nb::arg("checkpoint"),
           nb::sig("def save(self, checkpoint: int) -> list[tuple[int, int, int, int]]"),
           "Has all owners write their shards: (first partition, rows, bytes, xxh3) of each.")
      .def("restore", &PythonTensor::restore, nb::arg("checkpoint"), nb::arg("shards"),
           nb::sig("def restore(self, checkpoint: int, shards: list[tuple[int, int, int, int]]) -> None"),
           "Takes all owners back to a checkpoint.")
      .def("keep", &PythonTensor::keep, nb::arg("checkpoints"),
           nb::sig("def keep(self, checkpoints: list[int]) -> None"),
           "Removes the shards of all other checkpoints of the run.")
      .def("close", &PythonTensor::close, "What other threads wait for ends with an error.");
}

void bind_rows(nb::module_& module) {
  nb::class_<PythonRows>(module, "StateRows",
                         "A row for each node of a type, which the ranks of a run learn.")
      .def(
          "__init__",
          [](PythonRows* self, const PythonOwners& owners, const nb::dict& table, std::uint64_t run,
             std::uint32_t attempt, std::int64_t rank, std::int64_t ranks, std::int64_t timeout_ms) {
            new (self) PythonRows(
                owners, table_spec(table, TableSpec::Kind::kEmbedding),
                {.run = run, .attempt = attempt, .rank = rank, .ranks = ranks, .timeout_ms = timeout_ms});
          },
          nb::arg("owners"), nb::arg("table"), nb::arg("run"), nb::arg("attempt"), nb::arg("rank"),
          nb::arg("ranks"), nb::arg("timeout_ms"),
          nb::sig("def __init__(self, owners: StateOwners, table: dict[str, object], run: int, attempt: int, "
                  "rank: int, ranks: int, timeout_ms: int) -> None"),
          "Opens or makes the table.")
      .def_prop_ro("rows", &PythonRows::rows, "Nodes of the type.")
      .def_prop_ro("next_step", &PythonRows::next_step, "The step that is brought next.")
      .def_prop_ro("steps_looked_at", &PythonRows::steps_looked_at,
                   "Steps that were looked at and not brought.")
      .def("look", &PythonRows::look, nb::arg("ids").noconvert(),
           nb::sig("def look(self, ids: object) -> None"), "Asks for the rows of a step ahead.")
      .def("read", &PythonRows::read, nb::arg("ids").noconvert(), nb::arg("out").noconvert(),
           nb::sig("def read(self, ids: object, out: object) -> None"), "Writes rows that the step reads.")
      .def("step", &PythonRows::step, nb::arg("ids").noconvert(), nb::arg("gradients").noconvert(),
           nb::sig("def step(self, ids: object, gradients: object) -> None"),
           "Brings the gradients of lookups, in their order.")
      .def("pull", &PythonRows::pull, nb::arg("ids").noconvert(), nb::arg("out").noconvert(),
           nb::sig("def pull(self, ids: object, out: object) -> None"),
           "Writes rows as the steps that were brought have left them.")
      .def("save", &PythonRows::save, nb::arg("checkpoint"),
           nb::sig("def save(self, checkpoint: int) -> tuple[int, list[tuple[int, int, int, int]]]"),
           "Has all owners write their shards. The steps that they have applied, and the shards: (first "
           "partition, rows, bytes, xxh3) of each.")
      .def("restore", &PythonRows::restore, nb::arg("checkpoint"), nb::arg("shards"),
           nb::sig("def restore(self, checkpoint: int, shards: list[tuple[int, int, int, int]]) -> None"),
           "Takes all owners back to a checkpoint.")
      .def("keep", &PythonRows::keep, nb::arg("checkpoints"),
           nb::sig("def keep(self, checkpoints: list[int]) -> None"),
           "Removes the shards of all other checkpoints of the run.")
      .def("give_up", &PythonRows::give_up, "Leaves without waiting for the owners' word.")
      .def("close", &PythonRows::close, nb::arg("seconds") = nb::none(),
           "Leaves, and waits for the owners' word, so many seconds at most.");
}

}  // namespace

void bind_state(nb::module_& module) {
  bind_owners(module);
  bind_tensor(module);
  bind_rows(module);
}

}  // namespace hopfeed::python
