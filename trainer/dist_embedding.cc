// See dist_embedding.h.
#include "trainer/dist_embedding.h"

#include <ATen/Parallel.h>

#include <algorithm>
#include <functional>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>

#include "core/base/error.h"

namespace hopfeed {
namespace {

constexpr std::int64_t kRowsOfAThread = 256;  // at a time

std::span<const std::int64_t> ids_of(const torch::Tensor& ids) {
  return {ids.const_data_ptr<std::int64_t>(), static_cast<std::size_t>(ids.numel())};
}

/// On Torch's threads.
ParallelFor in_parallel(std::int64_t grain) {
  return [grain](std::int64_t count, const std::function<void(std::int64_t, std::int64_t)>& body) {
    at::parallel_for(0, count, grain, body);
  };
}

/// Ids and gradients of lookups that have one, in their order.
template <class Lookups>
std::pair<torch::Tensor, torch::Tensor> learned_in(const Lookups& lookups, std::int64_t width) {
  std::vector<torch::Tensor> ids, gradients;
  for (const auto& lookup : lookups) {
    if (!lookup.rows.grad().defined()) continue;
    ids.push_back(lookup.ids);
    gradients.push_back(lookup.rows.grad().cpu().contiguous());
  }
  if (ids.empty()) return {torch::empty({0}, torch::kInt64), torch::empty({0, width}, torch::kFloat32)};
  if (ids.size() == 1) return {ids.front(), gradients.front()};
  return {torch::cat(ids), torch::cat(gradients)};
}

/// What a checkpoint says of the table itself.
torch::Tensor title_of(const LearnedTableOptions& options, std::int64_t steps) {
  return torch::tensor({options.rows, options.width, static_cast<std::int64_t>(options.seed), steps,
                        static_cast<std::int64_t>(options.optimizer.optimizer)},
                       torch::kInt64);
}

/// Checkpoints from before there were several optimizers do not name sparse_adam.
bool is_title_of(const torch::Tensor& stored, const LearnedTableOptions& options) {
  const torch::Tensor title = title_of(options, 0);
  const std::int64_t optimizer = stored.numel() == 5 ? stored[4].item<std::int64_t>()
                                                     : static_cast<std::int64_t>(RowOptimizer::kSparseAdam);
  return (stored.numel() == 4 || stored.numel() == 5) &&
         torch::equal(stored.narrow(0, 0, 3), title.narrow(0, 0, 3)) &&
         optimizer == title[4].item<std::int64_t>();
}

}  // namespace

DistEmbeddingImpl::DistEmbeddingImpl(const TableSpec& spec) : spec_(spec) {
  spec.require_kind(TableSpec::Kind::kEmbedding).validate();
}

torch::Tensor DistEmbeddingImpl::forward(const torch::Tensor& ids) {
  const torch::Tensor wanted = ids.cpu().contiguous();
  const bool learns = is_training() && torch::GradMode::is_enabled();
  torch::Tensor rows;
  if (at_owners()) {
    rows = or_lost([&] { return learns ? rows_of_step(wanted) : pulled(wanted); });
  } else {
    table_->require_rows(ids_of(wanted));
    rows = torch::empty({wanted.size(0), width()}, torch::kFloat32);
    table_->read(ids_of(wanted), rows.mutable_data_ptr<float>(), in_parallel(kRowsOfAThread));
  }
  rows = rows.to(ids.device());
  if (learns) {
    rows.requires_grad_();
    lookups_.push_back({wanted, rows});
  }
  return rows;
}

void DistEmbeddingImpl::step(World& world) {
  const std::vector<Lookup> lookups = std::exchange(lookups_, {});
  if (at_owners()) return or_lost([&] { step_at_owners(lookups); });
  const auto [ids, learned] = learned_in(lookups, width());
  const RowGroups groups(ids_of(ids));
  const torch::Tensor rows = torch::tensor(groups.rows(), torch::kInt64),
                      sums = torch::empty({rows.size(0), width()}, torch::kFloat32);
  groups.sum(learned.const_data_ptr<float>(), width(), sums.mutable_data_ptr<float>(),
             in_parallel(kRowsOfAThread));
  const std::vector<torch::Tensor> all_rows = world.gather_rows(rows), all_sums = world.gather_rows(sums);
  std::vector<RowSums> by_rank;
  for (std::size_t rank = 0; rank < all_rows.size(); ++rank)
    by_rank.push_back({ids_of(all_rows[rank]), all_sums[rank].const_data_ptr<float>()});
  table_->step(by_rank, world.size(), in_parallel(1));
}

// ---- at owners

void DistEmbeddingImpl::open(std::shared_ptr<StateNetwork> network, const DatasetMeta& dataset,
                             const RankOfRun& rank) {
  abandon();
  rows_ = std::make_unique<DistRows>(std::move(network), dataset, *spec_, rank);
}

void DistEmbeddingImpl::abandon() {
  if (rows_) rows_->give_up();
  rows_.reset();
  ahead_.clear();
  lookups_.clear();
  step_rows_ = torch::Tensor();
}

void DistEmbeddingImpl::look(const torch::Tensor& ids) {
  if (!at_owners()) return;
  const torch::Tensor wanted = ids.cpu().contiguous();
  Ahead ahead{.ids = wanted, .groups = RowGroups(ids_of(wanted))};
  or_lost([&] { rows_->look(ahead.groups.rows()); });
  ahead_.push_back(std::move(ahead));
}

/// Rows of the next step. Whoever did not look before looks now.
torch::Tensor DistEmbeddingImpl::rows_of_step(const torch::Tensor& ids) {
  if (ahead_.empty()) look(ids);
  const Ahead& ahead = ahead_.front();
  const bool first = !step_rows_.defined();
  if (first) {
    step_rows_ = torch::empty({ahead.ids.size(0), width()}, torch::kFloat32);
    rows_->read(ahead.groups, step_rows_.mutable_data_ptr<float>(), in_parallel(kRowsOfAThread));
  }
  // Gradients of two lookups are two: only one of them may have this memory.
  if (torch::equal(ids, ahead.ids)) return first ? step_rows_.detach() : step_rows_.clone();
  const std::vector<std::int64_t>& looked = ahead.groups.rows();
  std::vector<std::int64_t> places;
  for (const std::int64_t id : ids_of(ids)) {
    const auto place = std::ranges::lower_bound(looked, id);
    require_valid(place != looked.end() && *place == id,
                  "node " + std::to_string(id) + " (dataset id) is read in a step of table '" + spec_->name +
                      "' that did not look at it; look() at all rows of a step first");
    places.push_back(ahead.groups.lookups(static_cast<std::size_t>(place - looked.begin())).front());
  }
  return torch::index_select(step_rows_, 0, torch::tensor(places, torch::kInt64));
}

torch::Tensor DistEmbeddingImpl::pulled(const torch::Tensor& ids) const {
  torch::Tensor rows = torch::empty({ids.size(0), width()}, torch::kFloat32);
  rows_->pull(ids_of(ids), rows.mutable_data_ptr<float>());
  return rows;
}

void DistEmbeddingImpl::step_at_owners(const std::vector<Lookup>& lookups) {
  const auto [ids, learned] = learned_in(lookups, width());
  const bool as_looked = !ahead_.empty() && torch::equal(ids, ahead_.front().ids);
  const RowGroups groups = as_looked ? std::move(ahead_.front().groups) : RowGroups(ids_of(ids));
  if (!ahead_.empty()) ahead_.pop_front();
  step_rows_ = torch::Tensor();
  rows_->step(groups, learned.const_data_ptr<float>(), in_parallel(kRowsOfAThread));
}

// ---- files

/// The first `numbers` of each learned row, and what the table is.
void DistEmbeddingImpl::write_rows(torch::serialize::OutputArchive& archive, std::int64_t numbers,
                                   std::int64_t steps) const {
  torch::Tensor ids = torch::empty({table_->num_learned()}, torch::kInt64),
                rows = torch::empty({table_->num_learned(), numbers}, torch::kFloat32);
  std::int64_t* id = ids.mutable_data_ptr<std::int64_t>();
  float* out = rows.mutable_data_ptr<float>();
  table_->for_each_learned([&](std::int64_t row, const float* stored) {
    *id++ = row;
    out = std::copy_n(stored, numbers, out);
  });
  archive.write("learned", ids, /*is_buffer=*/true);
  archive.write("rows", rows, /*is_buffer=*/true);
  archive.write("table", title_of(table_->options(), steps), /*is_buffer=*/true);
}

/// The owners' shards have the rows.
void DistEmbeddingImpl::write_spec(torch::serialize::OutputArchive& archive) const {
  const std::string text = spec_->to_json();
  archive.write("at_owners",
                torch::tensor(std::vector<std::uint8_t>(text.begin(), text.end()), torch::kUInt8),
                /*is_buffer=*/true);
}

void DistEmbeddingImpl::load_spec(torch::serialize::InputArchive& archive) const {
  torch::Tensor text;
  archive.read("at_owners", text, true);
  const auto* const chars = reinterpret_cast<const char*>(text.const_data_ptr<std::uint8_t>());
  TableSpec::from_json({chars, static_cast<std::size_t>(text.numel())}).require_same(*spec_);
}

void DistEmbeddingImpl::save(torch::serialize::OutputArchive& archive) const {
  if (at_owners()) return write_spec(archive);
  write_rows(archive, table_->row_numbers(), table_->count().steps);
  archive.write("powers", torch::tensor({table_->count().power1, table_->count().power2}, torch::kFloat64),
                /*is_buffer=*/true);
}

void DistEmbeddingImpl::save_values(torch::serialize::OutputArchive& archive) const {
  if (at_owners()) return write_spec(archive);
  write_rows(archive, table_->options().width, 0);
}

void DistEmbeddingImpl::load(torch::serialize::InputArchive& archive) {
  if (at_owners()) return load_spec(archive);
  torch::Tensor ids, rows, title, powers;
  archive.read("learned", ids, true);
  archive.read("rows", rows, true);
  archive.read("table", title, true);
  const bool whole = archive.try_read("powers", powers, true);  // else save_values() wrote it
  const std::int64_t count = ids.numel(), most = table_->options().rows;
  const auto numbers = static_cast<std::size_t>(whole ? table_->row_numbers() : table_->options().width);
  const bool fits =
      is_title_of(title, table_->options()) && rows.numel() == count * static_cast<std::int64_t>(numbers) &&
      (!whole || powers.numel() == 2) && rows.scalar_type() == torch::kFloat32 &&
      ids.scalar_type() == torch::kInt64 &&
      (count == 0 || (ids.min().item<std::int64_t>() >= 0 && ids.max().item<std::int64_t>() < most));
  if (!fits) throw std::runtime_error("another table");
  table_->clear();
  const std::span<const float> all(rows.const_data_ptr<float>(), static_cast<std::size_t>(rows.numel()));
  std::size_t begin = 0;
  for (const std::int64_t row : ids_of(ids)) {
    table_->restore(row, all.subspan(begin, numbers));
    begin += numbers;
  }
  if (whole)
    table_->restore_count({.steps = title[3].item<std::int64_t>(),
                           .power1 = powers[0].item<double>(),
                           .power2 = powers[1].item<double>()});
  lookups_.clear();
}

}  // namespace hopfeed
