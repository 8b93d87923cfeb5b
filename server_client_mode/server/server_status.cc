// See server_status.h.
#include "server_client_mode/server/server_status.h"

#include <fmt/format.h>
#include <prometheus/metric_family.h>
#include <prometheus/text_serializer.h>

#include <array>
#include <utility>

#include "core/base/json_text.h"
#include "core/batch/tier_json.h"

namespace hopfeed {
namespace {

constexpr std::array<const char*, 5> kSlotStates{"free", "planned", "filling", "ready", "held"};

nlohmann::json clients_json(const std::vector<Session::Status>& clients) {
  nlohmann::json list = nlohmann::json::array();
  for (const Session::Status& client : clients) {
    list.push_back({{"id", client.id},
                    {"name", client.name},
                    {"peer", client.peer},
                    {"tls", client.encrypted},
                    {"seconds", client.seconds},
                    {"jobs", client.jobs},
                    {"waiting", client.load.waiting},
                    {"under_way", client.load.under_way},
                    {"blocks", client.load.blocks},
                    {"block_bytes", client.load.block_bytes},
                    {"waiting_for_grant", client.waiting_for_grant},
                    {"sending", client.sending},
                    {"batches", client.batches},
                    {"bytes_in", client.bytes_in},
                    {"bytes_out", client.bytes_out},
                    {"worker_seconds", client.load.worker_seconds}});
  }
  return list;
}

nlohmann::json workers_json(const LoaderSnapshot& channel) {
  nlohmann::json list = nlohmann::json::array();
  for (const LoaderSnapshot::Worker& worker : channel.workers) {
    list.push_back({{"process", worker.pid},
                    {"now", to_string(worker.activity)},
                    {"batches", worker.batches},
                    {"sampling", worker.sampling},
                    {"gathering", worker.gathering},
                    {"waited_for_slot", worker.waited_for_slot},
                    {"waited_for_memory", worker.waited_for_memory}});
  }
  return list;
}

nlohmann::json peers_json(const ServerStatus::Peers& peers) {
  return {{"questions", peers.questions},           {"refused", peers.refused},
          {"question_bytes", peers.question_bytes}, {"answer_bytes", peers.answer_bytes},
          {"drawn_rows", peers.of.drawn_rows},      {"drawn_edges", peers.of.drawn_edges},
          {"whole_rows", peers.of.whole_rows},      {"whole_row_edges", peers.of.whole_row_edges},
          {"feature_rows", peers.of.feature_rows},  {"edges_looked_up", peers.of.edges_looked_up},
          {"original_ids", peers.of.original_ids},  {"mapped_ids", peers.of.mapped_ids}};
}

nlohmann::json lost_json(const std::vector<LostPartition>& lost) {
  nlohmann::json list = nlohmann::json::array();
  for (const LostPartition& one : lost)
    list.push_back(
        {{"dataset", one.dataset}, {"partition", one.partition}, {"seconds", one.seconds}, {"why", one.why}});
  return list;
}

/// A table by what it is and holds; a learned one also by how far its ranks are.
nlohmann::json table_json(const StateAnswers::ServedTable& served) {
  const TableStatus& table = served.table;
  const bool learned = table.spec.kind == TableSpec::Kind::kEmbedding;
  nlohmann::json json{{"dataset", served.dataset->meta().name},
                      {"fingerprint", served.dataset->meta().fingerprint},
                      {"name", table.spec.name},
                      {"kind", learned ? "embedding" : "tensor"},
                      {"node_type", table.spec.node_type},
                      {"dtype", to_string(table.spec.dtype)},
                      {"width", table.spec.width},
                      {"rows", table.rows},
                      {"written", table.written},
                      {"bytes", table.bytes},
                      {"held_bytes", table.held_bytes}};
  if (learned)
    json.update({{"optimizer", name_of(table.spec.optimizer.optimizer)},
                 {"run", fmt::format("{:016x}", table.run)},
                 {"attempt", table.attempt},
                 {"ranks", table.ranks},
                 {"steps_applied", table.steps_applied},
                 {"connections", table.connections}});
  return json;
}

nlohmann::json state_json(const ServerStatus::State& state) {
  nlohmann::json tables = nlohmann::json::array();
  for (const StateAnswers::ServedTable& table : state.tables) tables.push_back(table_json(table));
  return {{"max_memory", state.max_memory}, {"tables", tables}};
}

nlohmann::json results_json(const ServerStatus::Results& results) {
  const ResultsAnswers::Counts& counts = results.counts.of;
  return {{"folder", results.folder},  {"questions", counts.questions},
          {"not_yet", counts.not_yet}, {"refused", results.counts.refused},
          {"rows", counts.rows},       {"row_bytes", counts.bytes},
          {"shards", counts.shards}};
}

nlohmann::json totals_json(const ServerTotals& totals) {
  return {{"connections", totals.connections},
          {"refused_connections", totals.refused_connections},
          {"failed_logins", totals.failed_logins},
          {"batches", totals.batches},
          {"batch_bytes", totals.batch_bytes},
          {"failed", totals.failed},
          {"dropped", totals.dropped},
          {"blocks_not_taken", totals.remade_blocks}};
}

/// One family of metrics, with a value for each set of labels.
class Family {
 public:
  Family(const char* name, const char* help, prometheus::MetricType type,
         const char* about = "hopfeed_server_") {
    family_.name = std::string(about) + name;
    family_.help = help;
    family_.type = type;
  }
  Family& add(double value, const std::vector<std::pair<std::string, std::string>>& labels = {}) {
    prometheus::ClientMetric metric;
    for (const auto& [name, text] : labels) metric.label.push_back({.name = name, .value = text});
    if (family_.type == prometheus::MetricType::Counter)
      metric.counter.value = value;
    else
      metric.gauge.value = value;
    family_.metric.push_back(std::move(metric));
    return *this;
  }
  prometheus::MetricFamily take() { return std::move(family_); }

 private:
  prometheus::MetricFamily family_;
};

class Families {
 public:
  void gauge(const char* name, const char* help, double value) {
    families_.push_back(Family(name, help, prometheus::MetricType::Gauge).add(value).take());
  }
  void counter(const char* name, const char* help, double value) {
    families_.push_back(Family(name, help, prometheus::MetricType::Counter).add(value).take());
  }
  void push(Family family) { families_.push_back(family.take()); }
  std::string text() const { return prometheus::TextSerializer().Serialize(families_); }

 private:
  std::vector<prometheus::MetricFamily> families_;
};

Family slot_states(const SamplingPool::Load& load) {
  Family slots("slots", "Slots of the channel by state", prometheus::MetricType::Gauge);
  for (std::size_t i = 0; i < kSlotStates.size(); ++i) slots.add(load.slots[i], {{"state", kSlotStates[i]}});
  return slots;
}

Family worker_seconds(const LoaderSnapshot& channel) {
  Family seconds("worker_seconds_total", "What the sampling workers did", prometheus::MetricType::Counter);
  for (std::size_t i = 0; i < channel.workers.size(); ++i) {
    const LoaderSnapshot::Worker& worker = channel.workers[i];
    const auto add = [&](const char* stage, double value) {
      seconds.add(value, {{"worker", std::to_string(i)}, {"stage", stage}});
    };
    add("sampling", worker.sampling);
    add("gathering", worker.gathering);
    add("waiting_for_slot", worker.waited_for_slot);
    add("waiting_for_memory", worker.waited_for_memory);
  }
  return seconds;
}

Family rows_of_tiers(const TierCounts& tiers) {
  Family rows("feature_rows_total", "Rows of features by where they were read",
              prometheus::MetricType::Counter);
  const auto add = [&](const char* tier, std::int64_t value) {
    rows.add(static_cast<double>(value), {{"tier", tier}});
  };
  add("memory", tiers.memory_rows);
  add("cache", tiers.cache_rows);
  add("file", tiers.file_rows);
  add("peer", tiers.peer_rows);
  return rows;
}

/// Of each table of state; its dataset too, since one server may have several versions of a dataset.
void add_state(Families& all, const ServerStatus::State& state) {
  const auto gauge = [](const char* name, const char* help) {
    return Family(name, help, prometheus::MetricType::Gauge, "hopfeed_state_");
  };
  Family bytes = gauge("bytes", "Indexes and written rows of tables of state");
  Family held = gauge("held_bytes", "What waits for other ranks, or for the files of a checkpoint");
  Family written = gauge("rows_written", "Rows of tables of state that take memory");
  Family steps = gauge("steps_applied", "Steps that learned tables have applied");
  for (const StateAnswers::ServedTable& served : state.tables) {
    const TableStatus& table = served.table;
    const std::vector<std::pair<std::string, std::string>> labels{
        {"dataset", state_title(served.dataset->meta())}, {"table", table.spec.name}};
    bytes.add(static_cast<double>(table.bytes), labels);
    written.add(static_cast<double>(table.written), labels);
    held.add(static_cast<double>(table.held_bytes), labels);
    if (table.spec.kind != TableSpec::Kind::kEmbedding) continue;
    steps.add(static_cast<double>(table.steps_applied), labels);
  }
  for (Family* family : {&bytes, &held, &written, &steps}) all.push(std::move(*family));
}

void add_results(Families& all, const ServedResults::Counts& counts) {
  const auto number = [](std::int64_t value) { return static_cast<double>(value); };
  all.counter("results_questions_total", "Questions about rows of an inference", number(counts.of.questions));
  all.counter("results_not_yet_total", "Of these, those that came before the rows",
              number(counts.of.not_yet));
  all.counter("results_refused_total", "Of these, those that could not be answered", number(counts.refused));
  all.counter("results_rows_total", "Rows that were answered", number(counts.of.rows));
  all.counter("results_row_bytes_total", "Bytes of these", number(counts.of.bytes));
}

}  // namespace

std::string status_json(const ServerStatus& status) {
  nlohmann::json datasets = nlohmann::json::array(), slots = nlohmann::json::object();
  for (const wire::Offer::Dataset& dataset : status.datasets)
    datasets.push_back({{"name", dataset.name}, {"fingerprint", dataset.fingerprint}});
  for (std::size_t i = 0; i < kSlotStates.size(); ++i) slots[kSlotStates[i]] = status.load.slots[i];
  nlohmann::json json{{"address", status.address},
                      {"server", status.server},
                      {"software", status.software},
                      {"seconds", status.seconds},
                      {"draining", status.draining},
                      {"datasets", datasets},
                      {"clients", clients_json(status.clients)},
                      {"jobs", status.jobs},
                      {"seed_bytes", status.seed_bytes},
                      {"max_memory", status.max_memory},
                      {"slots", slots},
                      {"slot_bytes", status.load.granted},
                      {"waiting", status.load.waiting},
                      {"workers", workers_json(status.channel)},
                      {"tiers", tiers_json(status.channel.tiers)},
                      {"worker_deaths", status.load.deaths},
                      {"batches_remade", status.load.remade},
                      {"accept_pauses", status.accept_pauses},
                      {"peers", peers_json(status.peers)},
                      {"lost_partitions", lost_json(status.lost_partitions)},
                      {"totals", totals_json(status.totals)}};
  if (status.state) json["state"] = state_json(*status.state);
  if (status.results) json["results"] = results_json(*status.results);
  if (status.failure) json["failure"] = *status.failure;
  return json_text(json);
}

std::string metrics_text(const ServerStatus& status) {
  Families all;
  const ServerTotals& totals = status.totals;
  const auto number = [](auto value) { return static_cast<double>(value); };
  all.gauge("up_seconds", "Since the server started", status.seconds);
  all.gauge("draining", "1 while it takes nothing new", status.draining ? 1 : 0);
  all.gauge("clients", "Clients that are logged in", number(status.clients.size()));
  all.gauge("jobs", "Jobs that are open or kept", number(status.jobs));
  all.gauge("requests_waiting", "Batches that have no slot so far", number(status.load.waiting));
  all.push(slot_states(status.load));
  all.gauge("slot_bytes", "Memory behind the slots", number(status.load.granted));
  all.gauge("seed_bytes", "Seeds that clients gave", number(status.seed_bytes));
  all.push(worker_seconds(status.channel));
  all.push(rows_of_tiers(status.channel.tiers));
  all.counter("file_reads_total", "Reads of files of features", number(status.channel.tiers.reads));
  all.counter("file_read_bytes_total", "Bytes of these", number(status.channel.tiers.read_bytes));
  all.counter("worker_deaths_total", "Sampling workers that died", number(status.load.deaths));
  all.counter("batches_remade_total", "Batches made again after a death", number(status.load.remade));
  all.counter("batches_total", "Batches that were sent", number(totals.batches));
  all.counter("batch_bytes_total", "Bytes of these", number(totals.batch_bytes));
  all.counter("batches_failed_total", "Batches that could not be made", number(totals.failed));
  all.counter("batches_dropped_total", "Batches that were cancelled or refused while draining",
              number(totals.dropped));
  all.counter("blocks_not_taken_total", "Blocks freed because their client had no room for them",
              number(totals.remade_blocks));
  all.counter("connections_total", "Connections that were accepted", number(totals.connections));
  all.counter("connections_refused_total", "Connections turned away, there were too many",
              number(totals.refused_connections));
  all.counter("accept_pauses_total", "Times that no connection could be accepted, for lack of descriptors",
              number(status.accept_pauses));
  all.gauge("lost_partitions", "Partitions of other machines that no server answers for",
            number(status.lost_partitions.size()));
  all.counter("peer_questions_total", "Questions of machines that have other partitions",
              number(status.peers.questions));
  all.counter("peer_questions_refused_total", "Of these, those that could not be answered",
              number(status.peers.refused));
  all.counter("peer_question_bytes_total", "Bytes of these questions", number(status.peers.question_bytes));
  all.counter("peer_answer_bytes_total", "Bytes of the answers", number(status.peers.answer_bytes));
  if (status.state) add_state(all, *status.state);
  if (status.results) add_results(all, status.results->counts);
  all.counter("logins_failed_total", "Connections that did not log in", number(totals.failed_logins));
  return all.text();
}

}  // namespace hopfeed
