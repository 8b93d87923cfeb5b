// See tune_machine.h.
#include "partition_tool/program/tune_machine.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>

#include "core/base/error.h"
#include "core/base/json_text.h"
#include "core/maker/mapped_features.h"
#include "core/program/parse_option.h"
#include "partition_tool/program/loopback.h"
#include "partition_tool/tune/tune_files.h"
#include "partition_tool/tune/tune_rates.h"

namespace hopfeed {
namespace {

/// The share of the rows that is held where completing is measured.
constexpr HeldShare kHeld{.millionths = HeldShare::kAll / 5};

nlohmann::json read_object(const std::string& path, const std::string& option) {
  std::ifstream in(path, std::ios::binary);
  if (!in) throw Error(ErrorCode::kNotFound, fmt::format("{}: cannot read {}", option, path));
  const std::string text{std::istreambuf_iterator<char>(in), {}};
  nlohmann::json json = parse_json(text);
  if (!json.is_object())
    throw Error(ErrorCode::kInvalid,
                fmt::format("{}: {} is no JSON object: {}", option, path, json_complaint(text)));
  return json;
}

/// A positive number of a file; none where it has no such key.
std::optional<double> positive(const nlohmann::json& object, const std::string& key,
                               const std::string& where) {
  if (!object.contains(key)) return std::nullopt;
  const nlohmann::json& value = object[key];
  require_valid(value.is_number() && value.get<double>() > 0,
                fmt::format("{}: {} is {}; give a number above 0", where, key, json_text(value)));
  return value.get<double>();
}

/// What a file says of a machine takes the place of what was measured.
void read_machine(const std::string& path, TuneRates& rates) {
  const nlohmann::json file = read_object(path, "--machine");
  const std::string where = fmt::format("--machine: {}", path);
  FileRates files = rates.files.value_or(FileRates{});
  WireRates wire = rates.wire.value_or(WireRates{});
  const std::map<std::string, double*> numbers{
      {"sample_seconds", &rates.sample_seconds},
      {"gather_bytes_per_second", &rates.gather_bytes_per_second},
      {"complete_bytes_per_second", &rates.complete_bytes_per_second},
      {"convert_bytes_per_second", &rates.convert_bytes_per_second},
      {"reads_per_second", &files.reads_per_second},
      {"all_reads_per_second", &files.all_reads_per_second},
      {"cpu_seconds_per_read", &files.cpu_seconds_per_read},
      {"send_seconds_per_byte", &wire.send_seconds_per_byte},
      {"receive_seconds_per_byte", &wire.receive_seconds_per_byte},
      {"num_workers", &rates.num_workers},
      {"cores", &rates.cores}};
  for (const auto& [key, value] : file.items()) {
    require_valid(numbers.contains(key) || key == "link_bytes_per_second" || key == "train_seconds",
                  fmt::format("{}: '{}' is no rate; docs/cache.md lists them", where, key));
  }
  for (const auto& [key, rate] : numbers) *rate = positive(file, key, where).value_or(*rate);
  if (const auto link = positive(file, "link_bytes_per_second", where)) {
    wire.bytes_per_second = link;
    rates.wire = wire;
  }
  if (rates.wire) rates.wire = wire;
  if (rates.files) rates.files = files;
  if (const auto train = positive(file, "train_seconds", where)) rates.train_seconds = train;
}

/// The trainer's own seconds a batch: what the mean batch of its summary took, less what it waited for it.
double train_seconds_of(const std::string& path) {
  const nlohmann::json summary = read_object(path, "--summary");
  const std::string where = fmt::format("--summary: {}", path);
  const auto rate = positive(summary, "batches_per_s", where);
  const auto wait = summary.find("trainer_wait_fraction");
  if (!rate || wait == summary.end() || !wait->is_number() || wait->get<double>() < 0 ||
      wait->get<double>() >= 1)
    throw Error(ErrorCode::kInvalid,
                fmt::format("{} lacks batches_per_s or trainer_wait_fraction; give the summary.json of a "
                            "training program, or --train-ms",
                            where));
  return (1 - wait->get<double>()) / *rate;
}

/// --link: none, "loopback", or bytes a second.
std::optional<WireRates> link_of(const TuneChoices& choices) {
  if (choices.link.empty()) return std::nullopt;
  if (choices.link == "loopback") return WireRates{};
  const double rate = parse_real(choices.link, "--link");
  require_valid(rate > 0,
                fmt::format("--link is '{}'; give bytes a second (1e9), or loopback", choices.link));
  return WireRates{.bytes_per_second = rate};
}

/// What options and files say comes before what is measured.
void read_choices(const TuneChoices& choices, TuneRates& rates) {
  if (!choices.machine.empty()) read_machine(choices.machine, rates);
  const double digest = rates.train_seconds.value_or(0);  // that hopfeed-sample takes beside
  if (!choices.summary.empty()) rates.train_seconds = digest + train_seconds_of(choices.summary);
  if (choices.train_ms) rates.train_seconds = digest + *choices.train_ms / 1e3;
}

Rehearsal rehearse_here(const TuneChoices& choices, const Dataset& dataset, const TuneJob& job,
                        HeldShare held, Bars& bars) {
  const auto from_file = [&job](const FeatureName& name) {
    return std::ranges::any_of(job.files, [&](const FeatureName& file) {
      return file.store == name.store && file.type == name.type && file.name == name.name;
    });
  };
  const FeatureSourceFactory absent = absent_features();
  const Rehearsal result =
      rehearse(dataset, job.seeds,
               {.batch = job.batch,
                .batch_size = choices.batch_size,
                .node_type = job.node_type,
                .workers = static_cast<int>(choices.num_workers),
                .seconds = choices.seconds / 2,
                .held = held,
                .digest = choices.digest,
                // Rows of files are measured apart: here their pages would be read through the page cache.
                .make_source =
                    [&](const Dataset& of, const FeatureName& name) {
                      return from_file(name) ? absent(of, name) : mapped_features(of, name);
                    },
                .seed = choices.seed,
                .progress =
                    [&bars](double done, double total) {
                      bars.show({"Measuring stages", "ms", static_cast<std::uint64_t>(1e3 * done),
                                 static_cast<std::uint64_t>(1e3 * total)});
                    }});
  bars.finish();
  return result;
}

FileRates measure_files_here(const TuneChoices& choices, const Dataset& dataset, const TuneJob& job,
                             const TunePass& pass, Bars& bars) {
  const FileRates rates =
      measure_files(dataset, job.files, pass.ids,
                    {.workers = static_cast<int>(choices.num_workers),
                     .seconds = choices.seconds / 2,
                     .progress = [&bars](double done, double total) {
                       bars.show({"Reading files", "ms", static_cast<std::uint64_t>(1e3 * done),
                                  static_cast<std::uint64_t>(1e3 * total)});
                     }});
  bars.finish();
  return rates;
}

}  // namespace

void check_rates(const TuneChoices& choices) {
  TuneRates rates{.files = FileRates{}, .wire = link_of(choices)};
  read_choices(choices, rates);
}

TuneRates measure_rates(const TuneChoices& choices, const Dataset& dataset, const TuneJob& job,
                        const TunePass& pass, Bars& bars) {
  // Apart, since in worker mode nobody completes, and who does takes caches and memory from the others.
  const Rehearsal rehearsal = rehearse_here(choices, dataset, job, HeldShare{}, bars),
                  completing = rehearse_here(choices, dataset, job, kHeld, bars);
  TuneRates rates{.sample_seconds = rehearsal.sample_seconds,
                  .gather_bytes_per_second = rehearsal.gather_bytes_per_second,
                  .complete_bytes_per_second = completing.complete_bytes_per_second,
                  .wire = link_of(choices),
                  .num_workers = static_cast<double>(choices.num_workers),
                  .cores = static_cast<double>(usable_cores())};
  // hopfeed-sample hands rows on as they are stored, and a summary tells of a consumer that has converted.
  if (!choices.digest && choices.summary.empty()) rates.convert_bytes_per_second = convert_rate();
  if (choices.digest) rates.train_seconds = pass.block_bytes / rehearsal.digest_bytes_per_second;
  if (!job.files.empty()) rates.files = measure_files_here(choices, dataset, job, pass, bars);
  if (rates.wire) {
    const WireRates measured =
        measure_loopback(static_cast<std::size_t>(pass.block_bytes), choices.seconds / 2);
    rates.wire->send_seconds_per_byte = measured.send_seconds_per_byte;
    rates.wire->receive_seconds_per_byte = measured.receive_seconds_per_byte;
  }
  read_choices(choices, rates);
  return rates;
}

MeasuredRun read_measured(const std::string& path) {
  const nlohmann::json file = read_object(path, "--measured");
  const std::string where = fmt::format("--measured: {}", path);
  const auto rows = file.find("epoch_rows");
  if (rows == file.end() || !rows->is_array() || rows->empty() || !rows->back().is_object() ||
      !rows->back().contains("seconds"))
    throw Error(ErrorCode::kInvalid, fmt::format("{} lacks epoch_rows with seconds; give what hopfeed-sample "
                                                 "--json or a training program (summary.json) has written",
                                                 where));
  const nlohmann::json& last = rows->back();
  const nlohmann::json hit_rate = last.value("hit_rate", nlohmann::json(0.0));
  require_valid(hit_rate.is_number() && hit_rate.get<double>() >= 0 && hit_rate.get<double>() <= 1,
                fmt::format("{}: hit_rate is {}; it is a share, from 0 to 1", where, json_text(hit_rate)));
  return {.name = std::filesystem::path(path).filename().string(),
          .hit_rate = hit_rate.get<double>(),
          .epoch_seconds = *positive(last, "seconds", where)};
}

}  // namespace hopfeed
