// See stream.h.
#include "python/module/stream.h"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <utility>

#include "core/base/error.h"
#include "python/module/shown_warnings.h"
#include "python/module/signals.h"
#include "python/module/truncated_files.h"
#include "server_client_mode/client/remote_loader.h"
#include "worker_mode/loader.h"

namespace nb = nanobind;

namespace hopfeed::python {
namespace {

std::unique_ptr<BatchStream> open(StreamOptions options, const std::atomic<bool>& closing) {
  options.loader.while_waiting = [&closing] {
    if (closing) throw Error(ErrorCode::kInvalid, "the loader was closed while a batch was awaited");
    look_for_signals();
  };
  options.loader.empty_epochs = EmptyEpochs::kAllowed;
  if (options.remote) return std::make_unique<RemoteLoader>(*options.remote, options.loader);
  return std::make_unique<Loader>(options.loader);
}

nb::object from_json(const std::string& text) { return nb::module_::import_("json").attr("loads")(text); }

nb::dict deal_of(const DealOptions& deal) {
  nb::dict told;
  told["batch_size"] = deal.batch_size;
  told["drop_last"] = deal.drop_last;
  told["rank"] = deal.rank;
  told["world_size"] = deal.world_size;
  return told;
}

nb::dict waits_of(const WaitTimes& waits) {
  nb::dict told;
  told["for_sampling"] = waits.for_sampling;
  told["for_gather"] = waits.for_gather;
  told["for_handover"] = waits.for_handover;
  told["workers_for_slot"] = waits.for_slot;
  told["workers_for_memory"] = waits.for_memory;
  return told;
}

nb::dict tiers_of(const TierCounts& tiers) {
  nb::dict told;
  const TierCounts::Numbers numbers = tiers.numbers();
  for (std::size_t i = 0; i < numbers.size(); ++i) told[TierCounts::kNames[i]] = numbers[i];
  return told;
}

nb::dict stats_of(const StreamStats& stats) {
  nb::dict told;
  told["batches"] = stats.batches;
  told["workers"] = stats.workers;
  told["worker_deaths"] = stats.worker_deaths;
  told["batches_remade"] = stats.batches_remade;
  told["channel_bytes"] = stats.channel_bytes;
  told["feature_rows"] = stats.feature_rows;
  told["held_rows"] = stats.held_rows;
  told["held_bytes"] = stats.held_bytes;
  told["waited_seconds"] = waits_of(stats.waits);
  told["rows"] = tiers_of(stats.tiers);
  if (stats.gpu_setup.total() > 0) {
    nb::dict setup;
    setup["context"] = stats.gpu_setup.context;
    setup["copying"] = stats.gpu_setup.copying;
    setup["pinning"] = stats.gpu_setup.pinning;
    told["gpu_setup_seconds"] = setup;
  }
  if (stats.gpu_use.any()) {
    told["gpu_batches"] = stats.gpu_use.gpu_batches;
    told["cpu_batches"] = stats.gpu_use.cpu_batches;
    nb::dict memory;
    memory["graph_bytes"] = stats.gpu_use.graph_bytes;
    memory["graph_share"] = stats.gpu_use.graph.ratio();
    memory["rows_bytes"] = stats.gpu_use.rows_bytes;
    memory["rows_share"] = stats.gpu_use.rows.ratio();
    told["gpu_memory"] = memory;
  }
  return told;
}

// Waits for the stream without the interpreter's lock: the thread that uses the stream wants it now and then.
template <class Ask>
auto ask(PythonStream& self, Ask asked) {
  const nb::gil_scoped_release released;
  return self.with_stream(asked);
}

}  // namespace

PythonStream::PythonStream(StreamOptions options) : stream_(open(std::move(options), closing_)) {
  require_whole_files();
}

BatchStream& PythonStream::open_stream() {
  if (!stream_) throw Error(ErrorCode::kInvalid, "the loader is closed; make a new one");
  return *stream_;
}

std::optional<PythonBatch> PythonStream::next() {
  return with_stream([](BatchStream& stream) -> std::optional<PythonBatch> {
    std::optional<Batch> batch = stream.next();
    require_whole_files();
    if (!batch) return {};
    return std::optional<PythonBatch>(std::in_place, *std::move(batch), stream.crowded());
  });
}

void PythonStream::begin_epoch(std::int64_t epoch, std::int64_t start) {
  with_stream([&](BatchStream& stream) { stream.begin_epoch(epoch, start); });
}

void PythonStream::close() {
  closing_ = true;
  const std::lock_guard lock(mutex_);
  stream_.reset();
}

void bind_stream(nb::module_& module) {
  module.def(
      "stream_fields",
      [] {
        nb::list fields;
        for (const FieldRow& row : stream_fields())
          fields.append(nb::make_tuple(row.keyword, row.type, row.python_default, row.help));
        return fields;
      },
      nb::sig("def stream_fields() -> list[tuple[str, str, str, str]]"),
      "Keyword, type, default and help of each option of a Stream that stands for a field of the library.");
  module.def(
      "served_meta",
      [](const nb::dict& options) {
        StreamOptions given = stream_options(options);
        require_valid(given.remote.has_value(), "servers is missing");
        given.remote->while_waiting = look_for_signals;
        std::string text;
        {
          const nb::gil_scoped_release released;
          text = format_meta(RemoteStreams(*given.remote).meta());
        }
        return from_json(text);
      },
      nb::arg("options"), nb::sig("def served_meta(options: dict[str, object]) -> dict[str, object]"),
      "The meta.json of a dataset that servers have; options as of Stream.");
  using Released = nb::call_guard<nb::gil_scoped_release>;
  nb::class_<PythonStream>(module, "Stream", nb::is_weak_referenceable(),
                           "Batches of a dataset folder or of servers, epoch after epoch.")
      .def(
          "__init__",
          [](PythonStream* self, const nb::dict& options) {
            StreamOptions given = stream_options(options);
            const nb::gil_scoped_release released;
            new (self) PythonStream(std::move(given));
          },
          nb::arg("options"), nb::sig("def __init__(self, options: dict[str, object]) -> None"),
          "Opens it: starts the workers, or connects. The options are those of hopfeed.Loader.")
      .def("begin_epoch", &PythonStream::begin_epoch, nb::arg("epoch"), nb::arg("start") = 0, Released(),
           "Starts epoch `epoch` at seed position `start`; a running one is left.")
      .def(
          "next",
          [](PythonStream& self) -> nb::object {
            raise_warnings();  // of the call before: what raises an error costs no batch
            std::optional<PythonBatch> batch;
            {
              const nb::gil_scoped_release released;
              batch = self.next();
            }
            if (batch) return nb::cast(*std::move(batch));
            raise_warnings();
            return nb::none();
          },
          nb::sig("def next(self) -> Batch | None"), "The next batch; None at the end of the epoch.")
      .def("close", &PythonStream::close, Released(),
           "Ends workers or connections; batches that are held stay.")
      .def_prop_ro(
          "steps",
          [](PythonStream& self) {
            return self.with_stream([](BatchStream& stream) { return stream.steps(); });
          },
          Released(), "Batches of the running epoch for this rank.")
      .def_prop_ro(
          "num_seeds",
          [](PythonStream& self) {
            return self.with_stream([](BatchStream& stream) { return stream.num_seeds(); });
          },
          Released(), "Of the whole list; with links the number of these.")
      .def_prop_ro(
          "next_position",
          [](PythonStream& self) {
            return self.with_stream([](BatchStream& stream) { return stream.next_position(); });
          },
          Released(), "The first seed position that no batch so far had: what a checkpoint stores.")
      .def(
          "stats",
          [](PythonStream& self) {
            return stats_of(ask(self, [](BatchStream& stream) { return stream.stats(); }));
          },
          nb::sig("def stats(self) -> dict[str, object]"), "Counts and seconds since it was opened.")
      .def(
          "spec",
          [](PythonStream& self) {
            return from_json(ask(self, [](BatchStream& stream) { return stream.spec().to_json(); }));
          },
          nb::sig("def spec(self) -> dict[str, object]"), "Everything that decides the bytes of the batches.")
      .def(
          "deal",
          [](PythonStream& self) {
            return deal_of(ask(self, [](BatchStream& stream) { return stream.deal(); }));
          },
          nb::sig("def deal(self) -> dict[str, object]"),
          "Who gets which of the batches, and how large they are.")
      .def(
          "meta",
          [](PythonStream& self) {
            return from_json(ask(self, [](BatchStream& stream) { return format_meta(stream.meta()); }));
          },
          nb::sig("def meta(self) -> dict[str, object]"), "The dataset's meta.json.")
      .def(
          "worker_pids",
          [](PythonStream& self) {
            return self.with_stream([](BatchStream& stream) {
              const auto* loader = dynamic_cast<const Loader*>(&stream);
              return loader != nullptr ? loader->worker_pids() : std::vector<int>();
            });
          },
          Released(), "Of workers on this machine.");
}

}  // namespace hopfeed::python
