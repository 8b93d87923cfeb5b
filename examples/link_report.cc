// See link_report.h.
#include "examples/link_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "examples/epoch_report.h"

namespace hopfeed {
namespace {

/// The epoch whose model is kept.
const EpochRow& best_of(const LinkModelReport& model) {
  return *std::ranges::find(model.rows, model.best_epoch, &EpochRow::epoch);
}

nlohmann::json rows_to_json(const LinkRunReport& report, const std::vector<EpochRow>& rows) {
  nlohmann::json result = nlohmann::json::array();
  for (const EpochRow& row : rows) {
    nlohmann::json& json = result.emplace_back(to_json(row));
    json["evaluation_seconds"] = row.valid_seconds;
    if (report.has_valid) json["valid_auc"] = row.valid_auc;
    if (report.has_test) json["test_auc"] = row.test_auc;
  }
  return result;
}

void add_model(nlohmann::json& json, const LinkRunReport& report, const LinkModelReport& model) {
  const auto add = [&](const char* name, nlohmann::json value) {
    json[model.prefix + name] = std::move(value);
  };
  if (report.has_valid) add("valid_auc", best_of(model).valid_auc);
  if (report.has_test) add("test_auc", best_of(model).test_auc);
  add_epochs(json, model.prefix, model.rows, model.best_epoch);
  add("learned_rows", model.learned_rows);
  add("returns", model.returns);
  add("batches_again", model.batches_again);
  add("epoch_rows", rows_to_json(report, model.rows));
}

std::string line(std::size_t width, const std::string& what, const std::string& epoch,
                 const std::string& loss, const std::string& valid, const std::string& test,
                 const std::string& rate, const std::string& waited, const std::string& seconds) {
  return fmt::format("{:<{}}{:>8}{:>9}{:>11}{:>11}{:>11}{:>9}{:>10}\n", what, width, epoch, loss, valid, test,
                     rate, waited, seconds);
}

std::string decimals(bool there, double value) { return there ? fmt::format("{:.4f}", value) : "-"; }

std::string row_line(std::size_t width, const LinkRunReport& report, const std::string& title,
                     const std::string& epoch, const EpochRow& row, const EpochMeans& times) {
  return line(width, title, epoch, fmt::format("{:.4f}", row.loss), decimals(report.has_valid, row.valid_auc),
              decimals(report.has_test, row.test_auc), fmt::format("{:.1f}", times.batches_per_s),
              fmt::format("{:.0f}%", 100 * times.wait_fraction), fmt::format("{:.2f}", times.epoch_seconds));
}

}  // namespace

nlohmann::json to_json(const LinkRunReport& report) {
  nlohmann::json json = {{"dataset", report.dataset},
                         {"edge_type", report.edge_type},
                         {"trainers", report.trainers},
                         {"options", report.options}};
  for (const LinkModelReport& model : report.models) add_model(json, report, model);
  return json;
}

std::string to_table(const LinkRunReport& report) {
  std::size_t width = 18;
  for (const LinkModelReport& model : report.models) width = std::max(width, model.title.size());
  std::string table =
      line(width, "", "epoch", "loss", "valid AUC", "test AUC", "batches/s", "waited", "s/epoch");
  for (const EpochRow& row : report.models.back().rows)
    table += row_line(width, report, "", fmt::format("{}", row.epoch), row, means_of({row}));
  for (const LinkModelReport& model : report.models)
    table += row_line(width, report, model.title, fmt::format("best {}", model.best_epoch), best_of(model),
                      means_of(model.rows));
  return table;
}

}  // namespace hopfeed
