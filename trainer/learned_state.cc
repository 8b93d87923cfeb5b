// See learned_state.h.
#include "trainer/learned_state.h"

#include <algorithm>
#include <charconv>
#include <chrono>
#include <exception>
#include <nlohmann/json.hpp>
#include <random>
#include <string_view>
#include <thread>

#include "core/base/error.h"
#include "core/base/json_fields.h"
#include "core/base/json_text.h"

namespace hopfeed {
namespace {

/// How long tables that cannot be opened are tried again: a run that has ended is known to be over within it,
/// and an owner that was lost for longer has had its deadline already.
constexpr std::chrono::seconds kTriesFor{8};
constexpr std::chrono::milliseconds kPause{500};

/// The attempt that an owner says it has; 0: it says none. Clocks may have gone back since.
std::uint32_t attempt_in(const Error& error) {
  constexpr std::string_view kWords = "is learned by attempt ";
  const std::size_t at = error.message().find(kWords);
  std::uint32_t attempt = 0;
  if (at != std::string::npos) {
    const char* const begin = error.message().data() + at + kWords.size();
    std::from_chars(begin, error.message().data() + error.message().size(), attempt);
  }
  return attempt;
}

bool may_be_tried_again(const Error& error) {
  return error.code() == ErrorCode::kPeerDied || error.code() == ErrorCode::kStateLost ||
         error.code() == ErrorCode::kBusy;
}

std::uint64_t new_run() {
  std::random_device random;
  return (std::uint64_t{random()} << 32 | random() | 1) >> 1 | 1;  // never 0, and below 2^63
}

/// Attempts of a run rise, also where a trainer that has died has told nobody of its last one.
std::uint32_t attempt_of_now() {
  constexpr std::chrono::seconds k2024{1'704'067'200};
  const auto now =
      std::chrono::duration_cast<std::chrono::seconds>(std::chrono::system_clock::now().time_since_epoch());
  return static_cast<std::uint32_t>(std::max<std::int64_t>(0, (now - k2024).count()));
}

nlohmann::json to_json(const StateCheckpoint& checkpoint) {
  nlohmann::json tables = nlohmann::json::object();
  for (const auto& [table, shards] : checkpoint.shards)
    for (const ShardSum& shard : shards)
      tables[table].push_back({{"first_partition", shard.first_partition},
                               {"rows", shard.rows},
                               {"bytes", shard.bytes},
                               {"xxh3", shard.xxh3}});
  return {{"number", checkpoint.number}, {"tables", tables}};
}

StateCheckpoint checkpoint_from(const nlohmann::json& json) {
  const JsonFields fields(json, "a checkpoint of state", ErrorCode::kCorrupt);
  StateCheckpoint checkpoint{.number = fields.unsigned_whole("number"), .shards = {}};
  if (!fields.at("tables").is_object())
    throw Error(ErrorCode::kCorrupt, "the tables of a checkpoint of state are no object");
  for (const auto& [table, shards] : fields.at("tables").items())
    for (const nlohmann::json& shard : shards) {
      const JsonFields of_shard(shard, "a shard", ErrorCode::kCorrupt);
      checkpoint.shards[table].push_back({.first_partition = of_shard.whole("first_partition", 0, INT64_MAX),
                                          .rows = of_shard.whole("rows", 0, INT64_MAX),
                                          .bytes = of_shard.whole("bytes", 0, INT64_MAX),
                                          .xxh3 = of_shard.unsigned_whole("xxh3")});
    }
  return checkpoint;
}

void find_tables(torch::nn::Module& module, std::vector<DistEmbeddingImpl*>& found) {
  if (auto* table = dynamic_cast<DistEmbeddingImpl*>(&module); table != nullptr && table->at_owners())
    found.push_back(table);
  for (const auto& child : module.children()) find_tables(*child, found);
}

}  // namespace

std::int64_t StateCheckpoint::rows() const {
  std::int64_t rows = 0;
  for (const auto& [table, sums] : shards)
    for (const ShardSum& shard : sums) rows += shard.rows;
  return rows;
}

std::string StateManifest::to_json() const {
  nlohmann::json json = {{"run", run}, {"attempt", attempt}, {"now", hopfeed::to_json(now)}};
  if (best) json["best"] = hopfeed::to_json(*best);
  return json_text(json);
}

StateManifest StateManifest::from_json(const std::string& text) {
  const nlohmann::json json = parse_json(text);
  const JsonFields fields(json, "the manifest of state", ErrorCode::kCorrupt);
  StateManifest manifest{.run = fields.unsigned_whole("run"),
                         .attempt = static_cast<std::uint32_t>(fields.whole("attempt", 0, UINT32_MAX)),
                         .now = checkpoint_from(fields.at("now")),
                         .best = std::nullopt};
  if (fields.has("best")) manifest.best = checkpoint_from(fields.at("best"));
  return manifest;
}

LearnedState::LearnedState(World& world, torch::nn::Module& model, std::shared_ptr<StateNetwork> network,
                           const DatasetMeta& dataset)
    : world_(world), network_(std::move(network)), dataset_(dataset) {
  find_tables(model, tables_);
}

RankOfRun LearnedState::rank() const {
  return {.run = run_,
          .attempt = attempt_,
          .rank = world_.rank(),
          .ranks = world_.size(),
          .timeout_ms = world_.timeout().count()};
}

/// Rank 0 says who they are. The halves of 64 bits fit into a sum of float64.
void LearnedState::agree(std::uint64_t run, std::uint32_t attempt) {
  const bool mine = world_.rank() == 0;
  const std::vector<double> agreed =
      world_.sum({mine ? static_cast<double>(run >> 32) : 0, mine ? static_cast<double>(run & UINT32_MAX) : 0,
                  mine ? static_cast<double>(attempt) : 0});
  run_ = static_cast<std::uint64_t>(agreed[0]) << 32 | static_cast<std::uint64_t>(agreed[1]);
  attempt_ = static_cast<std::uint32_t>(agreed[2]);
}

/// Rank 0's way: the table as a checkpoint has it, or of first values.
void LearnedState::open_at(DistEmbeddingImpl& table, const StateCheckpoint* checkpoint) {
  table.open(network_, dataset_, rank());
  if (checkpoint == nullptr) return;
  const auto found = checkpoint->shards.find(table.spec().name);
  if (found == checkpoint->shards.end())
    throw Error(ErrorCode::kCorrupt,
                "the checkpoint has nothing of table '" + table.spec().name + "'; start afresh");
  table.rows().restore(checkpoint->number, found->second);
}

/// The others' way: as rank 0 has left it. An owner that was started again in between has nothing of it.
void LearnedState::open_as_it_is(DistEmbeddingImpl& table, std::int64_t steps) {
  table.open(network_, dataset_, rank());
  if (table.rows().next_step() != steps)
    throw Error(ErrorCode::kStateLost, "owners of table '" + table.spec().name + "' have applied " +
                                           std::to_string(table.rows().next_step()) + " steps and not " +
                                           std::to_string(steps) + "; go back to a checkpoint");
}

/// Rank 0 has every table as it is to be before another rank opens it. Returns why this rank has not all of
/// them open, where another try may help.
std::optional<Error> LearnedState::open_tables(const StateCheckpoint* checkpoint, const WorkTold& told) {
  std::optional<Error> why;
  const auto each = [&](const auto& open) {
    try {
      for (DistEmbeddingImpl* const table : tables_) open(*table);
    } catch (const Error& error) {
      if (!may_be_tried_again(error)) throw;
      why = error;
    }
  };
  abandon();
  const bool mine = world_.rank() == 0;
  const auto as_checkpoint = [&] { each([&](DistEmbeddingImpl& table) { open_at(table, checkpoint); }); };
  do_together(world_, mine ? as_checkpoint : std::function<void()>(), told);
  const double steps = mine && !why ? static_cast<double>(tables_.front()->rows().next_step()) : 0;
  const std::vector<double> of_rank_0 = world_.sum({why ? 1.0 : 0.0, steps});
  const auto as_it_is = [&] {
    each([&](DistEmbeddingImpl& table) { open_as_it_is(table, static_cast<std::int64_t>(of_rank_0[1])); });
  };
  do_together(world_, !mine && of_rank_0[0] == 0 ? as_it_is : std::function<void()>(), told);
  return why;
}

/// Owners may end, and begin again, meanwhile; and a run of before may not have left them yet.
void LearnedState::start(std::uint64_t run, std::uint32_t attempt, const StateCheckpoint* checkpoint,
                         const WorkTold& told) {
  const auto until = std::chrono::steady_clock::now() + kTriesFor;
  for (;;) {
    agree(run, std::max({attempt, attempt_ + 1, attempt_of_now()}));
    const std::optional<Error> why = open_tables(checkpoint, told);
    if (why) attempt = std::max(attempt, attempt_in(*why) + 1);
    const bool late = world_.rank() == 0 && std::chrono::steady_clock::now() > until;
    const std::vector<double> all = world_.sum({why ? 1.0 : 0.0, late ? 1.0 : 0.0});
    if (all[0] == 0) return;
    if (all[1] > 0)
      throw why.value_or(
          Error(ErrorCode::kPeerDied, "another trainer could not open its tables at their owners"));
    std::this_thread::sleep_for(kPause);
  }
}

void LearnedState::abandon() {
  for (DistEmbeddingImpl* const table : tables_) table->abandon();
}

void LearnedState::begin() {
  if (!any()) return;
  last_number_ = 0;
  start(new_run(), 0, nullptr);
}

void LearnedState::go_back(const StateManifest& manifest, const StateCheckpoint& checkpoint,
                           const WorkTold& told) {
  if (!any()) return;
  last_number_ = std::max(last_number_, checkpoint.number);
  start(manifest.run, manifest.attempt + 1, &checkpoint, told);
}

StateCheckpoint LearnedState::save(std::uint64_t number) {
  StateCheckpoint checkpoint{.number = number, .shards = {}};
  for (DistEmbeddingImpl* const table : tables_)
    checkpoint.shards[table->spec().name] = or_lost([&] { return table->rows().save(checkpoint.number); });
  return checkpoint;
}

void LearnedState::keep(std::uint64_t run, const std::vector<std::uint64_t>& checkpoints) {
  const std::vector<std::int64_t> numbers(checkpoints.begin(), checkpoints.end());
  try {
    for (DistEmbeddingImpl* const table : tables_) table->rows().keep(run, numbers);
  } catch (const Error&) {  // whoever needs the owner hears why
  }
}

DistEmbedding learned_rows_of(const Owners& owners, const NodeTypeMeta& type, std::int64_t width,
                              std::uint64_t seed, double lr) {
  if (!owners.network)
    return DistEmbedding(
        LearnedTableOptions{.rows = type.count, .width = width, .seed = seed, .optimizer = {.lr = lr}});
  return DistEmbedding(TableSpec{.name = owners.tables + "." + type.name,
                                 .node_type = type.name,
                                 .kind = TableSpec::Kind::kEmbedding,
                                 .width = width,
                                 .first_values = TableSpec::FirstValues::kUniform,
                                 .seed = seed,
                                 .optimizer = {.lr = lr}});
}

void require_ids_of_rows(const Owners& owners, const BatchOptions& batch, const std::string& model) {
  require_valid(owners.network == nullptr || batch.dataset_ids,
                model + "'s learned rows at owners go by dataset ids; sample with " + marked("dataset_ids"));
}

const torch::Tensor& ids_of_rows(DistEmbedding& rows, const NodeTensors& nodes) {
  return rows->at_owners() ? nodes.dataset_id : nodes.n_id;
}

void look_at_rows(std::vector<DistEmbedding>& rows, const TypedBatchTensors& batch) {
  for (std::size_t t = 0; t < rows.size(); ++t) {
    if (rows[t].is_empty()) continue;
    const bool any = batch.nodes[t].num_nodes() > 0;
    rows[t]->look(any ? ids_of_rows(rows[t], batch.nodes[t]) : torch::empty({0}, torch::kInt64));
  }
}

void step_rows(std::vector<DistEmbedding>& rows, World& world) {
  std::exception_ptr lost;
  for (DistEmbedding& table : rows) {
    if (table.is_empty()) continue;
    try {
      table->step(world);
    } catch (const StateLost&) {
      lost = std::current_exception();
    }
  }
  if (lost) std::rethrow_exception(lost);
}

}  // namespace hopfeed
