// See classification_report.h.
#include "examples/classification_report.h"

#include <fmt/format.h>

#include <algorithm>

namespace hopfeed {

EpochMeans means_of(const std::vector<EpochRow>& rows) {
  double seconds = 0, waited = 0, batches = 0;
  for (const EpochRow& row : rows) {
    seconds += row.seconds;
    waited += row.seconds * row.waits.trainer();
    batches += static_cast<double>(row.batches);
  }
  if (rows.empty() || seconds <= 0) return {};
  return {.epoch_seconds = seconds / static_cast<double>(rows.size()),
          .batches_per_s = batches / seconds,
          .wait_fraction = waited / seconds};
}

nlohmann::json to_json(const WaitTimes& waits) {
  return {{"for_sampling", waits.for_sampling},
          {"for_gather", waits.for_gather},
          {"for_handover", waits.for_handover},
          {"workers_for_slot", waits.for_slot},
          {"workers_for_memory", waits.for_memory}};
}

namespace {

nlohmann::json rows_to_json(const std::vector<EpochRow>& rows) {
  nlohmann::json result = nlohmann::json::array();
  for (const EpochRow& row : rows) {
    result.push_back({{"epoch", row.epoch},
                      {"loss", row.loss},
                      {"sampled_valid_accuracy", row.valid_accuracy},
                      {"seconds", row.seconds},
                      {"valid_seconds", row.valid_seconds},
                      {"batches", row.batches},
                      {"batches_per_s", row.batches_per_s},
                      {"trainer_wait_fraction", row.waits.trainer()},
                      {"waits", to_json(row.waits)}});
  }
  return result;
}

std::string percent(double fraction) { return fmt::format("{:.0f}%", 100 * fraction); }

std::string line(std::size_t width, const std::string& what, const std::string& epoch,
                 const std::string& loss, const std::string& train, const std::string& valid,
                 const std::string& test, const std::string& rate, const std::string& waited,
                 const std::string& seconds) {
  return fmt::format("{:<{}}{:>8}{:>9}{:>9}{:>9}{:>9}{:>11}{:>9}{:>10}\n", what, width, epoch, loss, train,
                     valid, test, rate, waited, seconds);
}

std::string decimals(const std::optional<double>& accuracy) {
  return accuracy ? fmt::format("{:.4f}", *accuracy) : "-";
}

std::string exact_line(std::size_t width, const ModelReport& model, const std::string& epoch) {
  const EpochMeans means = means_of(model.rows);
  return line(width, model.title, epoch, "", decimals(model.train_accuracy), decimals(model.valid_accuracy),
              decimals(model.test_accuracy), fmt::format("{:.1f}", means.batches_per_s),
              percent(means.wait_fraction), fmt::format("{:.2f}", means.epoch_seconds));
}

/// A split that the dataset has not is left out.
void add_model(nlohmann::json& json, const ModelReport& model) {
  const EpochMeans means = means_of(model.rows);
  const auto add = [&](const char* name, nlohmann::json value) {
    json[model.prefix + name] = std::move(value);
  };
  if (model.train_accuracy) add("train_accuracy", *model.train_accuracy);
  if (model.valid_accuracy) add("valid_accuracy", *model.valid_accuracy);
  if (model.test_accuracy) add("test_accuracy", *model.test_accuracy);
  add("epochs", model.rows.size());
  add("best_epoch", model.best_epoch);
  add("epoch_seconds", means.epoch_seconds);
  add("batches_per_s", means.batches_per_s);
  add("trainer_wait_fraction", means.wait_fraction);
  add("inference_seconds", model.inference_seconds);
  add("epoch_rows", rows_to_json(model.rows));
}

}  // namespace

nlohmann::json to_json(const RunReport& report) {
  nlohmann::json json = {
      {"dataset", report.dataset}, {"trainers", report.trainers}, {"options", report.options}};
  for (const ModelReport& model : report.models) add_model(json, model);
  return json;
}

std::string to_table(const RunReport& report) {
  std::size_t width = 16;
  for (const ModelReport& model : report.models) width = std::max(width, model.title.size());
  std::string table =
      line(width, "", "epoch", "loss", "train", "valid", "test", "batches/s", "waited", "s/epoch");
  const ModelReport& last = report.models.back();
  for (const EpochRow& row : last.rows) {
    const std::optional<double> valid =
        last.valid_accuracy ? std::optional(row.valid_accuracy) : std::nullopt;
    table += line(width, "", fmt::format("{}", row.epoch), fmt::format("{:.4f}", row.loss), "",
                  decimals(valid), "", fmt::format("{:.1f}", row.batches_per_s), percent(row.waits.trainer()),
                  fmt::format("{:.2f}", row.seconds));
  }
  for (const ModelReport& model : report.models)
    table += exact_line(width, model, fmt::format("best {}", model.best_epoch));
  table +=
      "valid of an epoch is sampled; the last rows are exact, for the best epoch's model, with means over "
      "all epochs.\n";
  return table;
}

}  // namespace hopfeed
