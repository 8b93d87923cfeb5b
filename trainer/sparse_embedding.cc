// See sparse_embedding.h.
#include "trainer/sparse_embedding.h"

#include <ATen/Parallel.h>

#include <algorithm>
#include <functional>
#include <span>
#include <stdexcept>
#include <utility>

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

torch::Tensor SparseEmbeddingImpl::forward(const torch::Tensor& ids) {
  const torch::Tensor wanted = ids.cpu().contiguous();
  table_.require_rows(ids_of(wanted));
  torch::Tensor rows = torch::empty({wanted.size(0), table_.options().width}, torch::kFloat32);
  table_.read(ids_of(wanted), rows.mutable_data_ptr<float>(), in_parallel(kRowsOfAThread));
  rows = rows.to(ids.device());
  if (is_training() && torch::GradMode::is_enabled()) {
    rows.requires_grad_();
    lookups_.push_back({wanted, rows});
  }
  return rows;
}

void SparseEmbeddingImpl::step(World& world) {
  const std::int64_t width = table_.options().width;
  std::vector<torch::Tensor> ids{torch::empty({0}, torch::kInt64)},
      gradients{torch::empty({0, width}, torch::kFloat32)};
  for (const Lookup& lookup : std::exchange(lookups_, {})) {
    if (!lookup.rows.grad().defined()) continue;
    ids.push_back(lookup.ids);
    gradients.push_back(lookup.rows.grad().cpu());
  }
  const torch::Tensor lookups = torch::cat(ids), learned = torch::cat(gradients);
  const RowGroups groups(ids_of(lookups));
  const torch::Tensor rows = torch::tensor(groups.rows(), torch::kInt64),
                      sums = torch::empty({rows.size(0), width}, torch::kFloat32);
  groups.sum(learned.const_data_ptr<float>(), width, sums.mutable_data_ptr<float>(),
             in_parallel(kRowsOfAThread));
  const std::vector<torch::Tensor> all_rows = world.gather_rows(rows), all_sums = world.gather_rows(sums);
  std::vector<RowSums> by_rank;
  for (std::size_t rank = 0; rank < all_rows.size(); ++rank)
    by_rank.push_back({ids_of(all_rows[rank]), all_sums[rank].const_data_ptr<float>()});
  table_.step(by_rank, world.size(), in_parallel(1));
}

/// The first `numbers` of each learned row, and what the table is.
void SparseEmbeddingImpl::write_rows(torch::serialize::OutputArchive& archive, std::int64_t numbers,
                                     std::int64_t steps) const {
  torch::Tensor ids = torch::empty({table_.num_learned()}, torch::kInt64),
                rows = torch::empty({table_.num_learned(), numbers}, torch::kFloat32);
  std::int64_t* id = ids.mutable_data_ptr<std::int64_t>();
  float* out = rows.mutable_data_ptr<float>();
  table_.for_each_learned([&](std::int64_t row, const float* stored) {
    *id++ = row;
    out = std::copy_n(stored, numbers, out);
  });
  archive.write("learned", ids, /*is_buffer=*/true);
  archive.write("rows", rows, /*is_buffer=*/true);
  archive.write("table", title_of(table_.options(), steps), /*is_buffer=*/true);
}

void SparseEmbeddingImpl::save(torch::serialize::OutputArchive& archive) const {
  write_rows(archive, table_.row_numbers(), table_.count().steps);
  archive.write("powers", torch::tensor({table_.count().power1, table_.count().power2}, torch::kFloat64),
                /*is_buffer=*/true);
}

void SparseEmbeddingImpl::save_values(torch::serialize::OutputArchive& archive) const {
  write_rows(archive, table_.options().width, 0);
}

void SparseEmbeddingImpl::load(torch::serialize::InputArchive& archive) {
  torch::Tensor ids, rows, title, powers;
  archive.read("learned", ids, true);
  archive.read("rows", rows, true);
  archive.read("table", title, true);
  const bool whole = archive.try_read("powers", powers, true);  // else save_values() wrote it
  const std::int64_t count = ids.numel(), most = table_.options().rows;
  const auto numbers = static_cast<std::size_t>(whole ? table_.row_numbers() : table_.options().width);
  const bool fits =
      is_title_of(title, table_.options()) && rows.numel() == count * static_cast<std::int64_t>(numbers) &&
      (!whole || powers.numel() == 2) && rows.scalar_type() == torch::kFloat32 &&
      ids.scalar_type() == torch::kInt64 &&
      (count == 0 || (ids.min().item<std::int64_t>() >= 0 && ids.max().item<std::int64_t>() < most));
  if (!fits) throw std::runtime_error("another table");
  table_.clear();
  const std::span<const float> all(rows.const_data_ptr<float>(), static_cast<std::size_t>(rows.numel()));
  std::size_t begin = 0;
  for (const std::int64_t row : ids_of(ids)) {
    table_.restore(row, all.subspan(begin, numbers));
    begin += numbers;
  }
  if (whole)
    table_.restore_count({.steps = title[3].item<std::int64_t>(),
                          .power1 = powers[0].item<double>(),
                          .power2 = powers[1].item<double>()});
  lookups_.clear();
}

}  // namespace hopfeed
