// See top_server.h. docs/protocol.md has the fields of a status.
#include "programs/top_server.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <tuple>

#include "core/base/error.h"
#include "core/base/memory_limits.h"
#include "core/base/plain_text.h"
#include "core/batch/tier_counts.h"

namespace hopfeed {
namespace {

using nlohmann::json;

constexpr std::size_t kMostTables = 16;  // on a screen

double seconds_between(const json& before, const json& now) {
  return std::max(now.at("seconds").get<double>() - before.at("seconds").get<double>(), 1e-9);
}

/// How fast a sum grows, a second; one that has begun anew, in a server that was started again, has no rate.
double rate(const json& before, const json& now, const char* sum, double seconds) {
  return std::max(0.0, now.at(sum).get<double>() - before.at(sum).get<double>()) / seconds;
}

double percent(const json& before, const json& now, const char* sum, double seconds) {
  return 100 * std::min(1.0, rate(before, now, sum, seconds));
}

std::string bytes_text(double bytes) { return format_bytes(static_cast<std::uint64_t>(bytes)); }

std::map<std::int64_t, json> clients_by_id(const json& status) {
  std::map<std::int64_t, json> clients;
  for (const json& client : status.at("clients")) clients[client.at("id").get<std::int64_t>()] = client;
  return clients;
}

/// A text of the status, cut short and without what a terminal would obey.
std::string text_of(const json& object, const char* key, std::size_t max_bytes = 256) {
  return as_line(object.at(key).get<std::string>(), max_bytes);
}

std::string names_of(const json& datasets) {
  std::string names;
  for (const json& dataset : datasets) names += (names.empty() ? "" : ", ") + text_of(dataset, "name");
  return names;
}

TierCounts tiers_of(const json& status) {
  TierCounts::Numbers numbers{};
  for (std::size_t i = 0; i < numbers.size(); ++i)
    numbers[i] =  // an older server lacks the last
        status.at("tiers").value(TierCounts::kNames[i], std::int64_t{0});
  return TierCounts::of(numbers);
}

std::string clients_text(const json& before, const json& now, double seconds) {
  std::string text = fmt::format("  {:<28}{:>6}{:>9}{:>12}{:>11}{:>12}{:>13}\n", "client", "jobs", "waiting",
                                 "under way", "blocks", "batches/s", "worker time");
  const std::map<std::int64_t, json> were = clients_by_id(before);
  for (const json& client : now.at("clients")) {
    const auto was = were.find(client.at("id").get<std::int64_t>());
    const json& earlier = was == were.end() ? client : was->second;
    text += fmt::format("  {:<28}{:>6}{:>9}{:>12}{:>11}{:>12.1f}{:>12.0f}%\n", text_of(client, "name", 27),
                        client.at("jobs").get<int>(), client.at("waiting").get<int>(),
                        client.at("under_way").get<int>(), bytes_text(client.at("block_bytes").get<double>()),
                        rate(earlier, client, "batches", seconds),
                        100 * rate(earlier, client, "worker_seconds", seconds));
  }
  return text;
}

std::string workers_text(const json& before, const json& now, double seconds) {
  std::string text = fmt::format("  {:>6} {:>8}  {:<17}{:>10}{:>10}{:>8}{:>12}{:>12}\n", "worker", "process",
                                 "now", "batches/s", "sampling", "gather", "for a slot", "for memory");
  const json &were = before.at("workers"), &are = now.at("workers");
  for (std::size_t i = 0; i < are.size() && i < were.size(); ++i) {
    const json &was = were[i], &is = are[i];
    text += fmt::format("  {:>6} {:>8}  {:<17}{:>10.1f}{:>9.0f}%{:>7.0f}%{:>11.0f}%{:>11.0f}%\n", i,
                        is.at("process").get<std::int64_t>(), text_of(is, "now"),
                        rate(was, is, "batches", seconds), percent(was, is, "sampling", seconds),
                        percent(was, is, "gathering", seconds), percent(was, is, "waited_for_slot", seconds),
                        percent(was, is, "waited_for_memory", seconds));
  }
  return text;
}

/// What its batches wait for; a server of an older version does not say.
std::string lost_text(const json& now) {
  std::string text;
  for (const json& lost : now.value("lost_partitions", json::array()))
    text += fmt::format("  partition {} of {} has had no server for {:.0f} s: {}\n",
                        lost.at("partition").get<int>(), text_of(lost, "dataset"),
                        lost.at("seconds").get<double>(), text_of(lost, "why"));
  return text;
}

using TableName = std::tuple<std::string, std::string, std::string, std::int64_t>;

/// A learned table, which no other run or attempt has begun anew.
TableName name_of(const json& table) {
  return {table.at("fingerprint"), table.at("name"), table.value("run", ""), table.value("attempt", 0)};
}

std::map<TableName, json> tables_by_name(const json& status) {
  std::map<TableName, json> tables;
  if (status.contains("state"))
    for (const json& table : status.at("state").at("tables")) tables[name_of(table)] = table;
  return tables;
}

/// The first of its tables of state; a server that keeps none, or of an older version, has no word of it.
std::string state_text(const json& before, const json& now, double seconds) {
  const json tables = now.value("state", json::object()).value("tables", json::array());
  if (tables.empty()) return "";
  std::string text = fmt::format("  {:<28}{:>11}{:>13}{:>13}{:>13}{:>13}{:>9}\n", "table of state", "kind",
                                 "rows", "written", "bytes", "held", "steps/s");
  const std::map<TableName, json> were = tables_by_name(before);
  for (std::size_t i = 0; i < std::min(tables.size(), kMostTables); ++i) {
    const json& table = tables[i];
    const auto was = were.find(name_of(table));
    const bool learned = table.contains("steps_applied");
    const json& earlier = was == were.end() ? table : was->second;
    text += fmt::format("  {:<28}{:>11}{:>13}{:>13}{:>13}{:>13}{:>9}\n", text_of(table, "name", 27),
                        text_of(table, "kind"), table.at("rows").get<std::int64_t>(),
                        table.at("written").get<std::int64_t>(), bytes_text(table.at("bytes").get<double>()),
                        bytes_text(table.value("held_bytes", 0.0)),
                        learned ? fmt::format("{:.1f}", rate(earlier, table, "steps_applied", seconds)) : "");
  }
  if (tables.size() > kMostTables)
    text += fmt::format("  and {} tables more (hopfeed-server status)\n", tables.size() - kMostTables);
  return text;
}

/// What it answers of an inference beside it, where it does.
std::string results_text(const json& before, const json& now, double seconds) {
  if (!now.contains("results")) return "";
  const json &results = now.at("results"), &were = before.value("results", results);
  return fmt::format("  results of {}: {:.1f} questions/s, {:.0f} rows/s, {}/s\n", text_of(results, "folder"),
                     rate(were, results, "questions", seconds), rate(were, results, "rows", seconds),
                     bytes_text(rate(were, results, "row_bytes", seconds)));
}

std::string screen(const json& before, const json& now) {
  const double seconds = seconds_between(before, now);
  const json &slots = now.at("slots"), &totals = now.at("totals"), &were = before.at("totals");
  std::string text = fmt::format(
      "server {}{}: {}   {:.1f} batches/s   {}/s\n"
      "  {} clients, {} batches waiting for a slot; {} worker deaths, {} batches made again\n"
      "  slots: {} free, {} planned, {} filling, {} ready, {} held; {} of memory, given seeds {}\n",
      text_of(now, "address"), now.at("draining").get<bool>() ? " (draining)" : "",
      names_of(now.at("datasets")), rate(were, totals, "batches", seconds),
      bytes_text(rate(were, totals, "batch_bytes", seconds)), now.at("clients").size(),
      now.at("waiting").get<std::int64_t>(), now.at("worker_deaths").get<std::int64_t>(),
      now.at("batches_remade").get<std::int64_t>(), slots.at("free").get<int>(),
      slots.at("planned").get<int>(), slots.at("filling").get<int>(), slots.at("ready").get<int>(),
      slots.at("held").get<int>(), bytes_text(now.at("slot_bytes").get<double>()),
      bytes_text(now.at("seed_bytes").get<double>()));
  if (const std::string tiers = (tiers_of(now) - tiers_of(before)).text(); !tiers.empty())
    text += fmt::format("  {}\n", tiers);
  return text + lost_text(now) + results_text(before, now, seconds) + clients_text(before, now, seconds) +
         workers_text(before, now, seconds) + state_text(before, now, seconds);
}

/// What `read` does with a status; a server of another version may lack what it looks for.
template <class Read>
auto reading_status(const Read& read) {
  try {
    return read();
  } catch (const json::exception&) {
    throw Error(ErrorCode::kCorrupt,
                "the server's status lacks what is shown here, or says it in another way; use one version of "
                "hopfeed on both sides");
  }
}

}  // namespace

std::string server_screen(const json& before, const json& now) {
  return reading_status([&] { return screen(before, now); });
}

json server_report(const json& before, const json& now) {
  return reading_status([&] {
    json report = now;
    const double seconds = seconds_between(before, now);
    report["batches_per_s"] = rate(before.at("totals"), now.at("totals"), "batches", seconds);
    report["bytes_per_s"] = rate(before.at("totals"), now.at("totals"), "batch_bytes", seconds);
    return report;
  });
}

}  // namespace hopfeed
