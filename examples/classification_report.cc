// See classification_report.h.
#include "examples/classification_report.h"

#include <fmt/format.h>

#include <algorithm>

#include "examples/epoch_report.h"

namespace hopfeed {
namespace {

nlohmann::json rows_to_json(const ModelReport& model) {
  nlohmann::json result = nlohmann::json::array();
  for (const EpochRow& row : model.rows) {
    nlohmann::json& json = result.emplace_back(to_json(row));
    json[model.exact_epochs ? "valid_accuracy" : "sampled_valid_accuracy"] = row.valid_accuracy;
    json["valid_seconds"] = row.valid_seconds;
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
  std::optional<double> valid = model.valid_accuracy;
  for (const EpochRow& row : model.rows)
    if (!model.exact_needs.empty() && row.epoch == model.best_epoch) valid = row.valid_accuracy;
  return line(width, model.title, epoch, "", decimals(model.train_accuracy), decimals(valid),
              decimals(model.test_accuracy), fmt::format("{:.1f}", means.batches_per_s),
              percent(means.wait_fraction), fmt::format("{:.2f}", means.epoch_seconds));
}

/// A split that the dataset has not is left out.
void add_model(nlohmann::json& json, const ModelReport& model) {
  const auto add = [&](const char* name, nlohmann::json value) {
    json[model.prefix + name] = std::move(value);
  };
  if (model.train_accuracy) add("train_accuracy", *model.train_accuracy);
  if (model.valid_accuracy) add("valid_accuracy", *model.valid_accuracy);
  if (model.test_accuracy) add("test_accuracy", *model.test_accuracy);
  add_epochs(json, model.prefix, model.rows, model.best_epoch);
  if (model.exact_needs.empty()) add("inference_seconds", model.inference_seconds);
  add("returns", model.returns);
  add("batches_again", model.batches_again);
  add("epoch_rows", rows_to_json(model));
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
        last.valid_accuracy || !last.exact_needs.empty() ? std::optional(row.valid_accuracy) : std::nullopt;
    table += line(width, "", fmt::format("{}", row.epoch), fmt::format("{:.4f}", row.loss), "",
                  decimals(valid), "", fmt::format("{:.1f}", row.batches_per_s), percent(row.waits.trainer()),
                  fmt::format("{:.2f}", row.seconds));
  }
  for (const ModelReport& model : report.models)
    table += exact_line(width, model, fmt::format("best {}", model.best_epoch));
  table += !last.exact_needs.empty()
               ? "valid is sampled; exact accuracies need " + last.exact_needs +
                     ". The last rows are of the best epoch, with means over all epochs.\n"
           : last.exact_epochs
               ? "All accuracies are exact; the last rows are of the best epoch's model, with means over all "
                 "epochs.\n"
               : "valid of an epoch is sampled; the last rows are exact, for the best epoch's model, "
                 "with means over all epochs.\n";
  return table;
}

}  // namespace hopfeed
