// See sparse_embedding.h.
#include "trainer/sparse_embedding.h"

#include <ATen/Parallel.h>
#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <stdexcept>
#include <string>
#include <utility>

#include "core/base/error.h"
#include "core/base/limits.h"
#include "core/base/memory_limits.h"
#include "core/base/prefetch.h"
#include "trainer/adam_rows.h"

namespace hopfeed {
namespace {

constexpr std::int64_t kEmbeddingGrain = 256;  // rows handed to a thread at a time
constexpr std::int64_t kRowsAhead =
    4;  // rows lie anywhere in gigabytes, so each is asked for before it is read

void check(const SparseEmbeddingOptions& options) {
  require_valid(options.width > 0 && options.width <= kMaxHidden,
                "an embedding's width is " + std::to_string(options.width) + "; use 1 to " +
                    std::to_string(kMaxHidden));
  require_valid(options.rows >= 0 && options.rows <= kMaxEmbeddingElements / options.width,
                "an embedding of " + std::to_string(options.rows) + " rows of " +
                    std::to_string(options.width) + " numbers; use 0 to " +
                    std::to_string(kMaxEmbeddingElements / options.width) + " rows");
  require_valid(options.lr > 0, "an embedding's lr is " + std::to_string(options.lr) + "; use one above 0");
  const auto decays = [](double beta) { return beta >= 0 && beta < 1; };
  require_valid(decays(options.beta1) && decays(options.beta2) && options.epsilon > 0,
                "an embedding's betas are from 0 up to below 1, and epsilon is above 0");
}

void prefetch(const float* row, std::int64_t width) {
  for (std::int64_t f = 0; f < width; f += 16) prefetch_line(row + f);
}

/// Positions of equal ids side by side, in their order: the fixed order of the sums.
struct Groups {
  torch::Tensor ids, order;         // int64 [n]: sorted, and where each was
  std::vector<std::int64_t> begin;  // of each group in them, and the end

  explicit Groups(const torch::Tensor& unsorted) {
    std::tie(ids, order) = unsorted.sort(/*stable=*/true, /*dim=*/0, /*descending=*/false);
    const std::int64_t* id = ids.const_data_ptr<std::int64_t>();
    for (std::int64_t i = 0; i < ids.size(0); ++i) {
      if (i == 0 || id[i] != id[i - 1]) begin.push_back(i);
    }
    begin.push_back(ids.size(0));
  }
  std::int64_t count() const { return static_cast<std::int64_t>(begin.size()) - 1; }
};

}  // namespace

void SparseEmbeddingImpl::Unmap::operator()(float* data) const { munmap(data, bytes); }

SparseEmbeddingImpl::SparseEmbeddingImpl(const SparseEmbeddingOptions& options) : options_(options) {
  check(options);
  make_table();
}

void SparseEmbeddingImpl::make_table() {
  const auto rows = static_cast<std::size_t>(options_.rows);
  const std::size_t bytes = rows * 3 * static_cast<std::size_t>(options_.width) * sizeof(float);
  require_memory(bytes + rows, available_memory(),
                 "an embedding of " + std::to_string(options_.rows) + " rows with its optimizer",
                 "a smaller width, or fewer trainers on this machine");
  void* data =
      mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (data == MAP_FAILED) throw_errno("cannot map the memory of an embedding", errno);
  table_ = {static_cast<float*>(data), Unmap{bytes}};
  learned_.assign(rows, 0);
}

void SparseEmbeddingImpl::values(std::int64_t id, float* out) const {
  if (learned_[static_cast<std::size_t>(id)] != 0) {
    std::memcpy(out, row(id), static_cast<std::size_t>(options_.width) * sizeof(float));
    return;
  }
  const auto width = static_cast<float>(options_.width);  // the variance of (-b, b) is b * b / 3
  first_values(options_.seed, id, std::sqrt(3 / width), options_.width, out);
}

torch::Tensor SparseEmbeddingImpl::forward(const torch::Tensor& ids) {
  const torch::Tensor wanted = ids.cpu().contiguous();
  const std::int64_t* id = wanted.const_data_ptr<std::int64_t>();
  const std::int64_t count = wanted.size(0), width = options_.width;
  for (std::int64_t i = 0; i < count; ++i) {
    require_valid(id[i] >= 0 && id[i] < options_.rows, "node " + std::to_string(id[i]) +
                                                           " has no row in an embedding of " +
                                                           std::to_string(options_.rows) + " rows");
  }
  torch::Tensor rows = torch::empty({count, width}, torch::kFloat32);
  float* out = rows.mutable_data_ptr<float>();
  at::parallel_for(0, count, kEmbeddingGrain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      if (i + kRowsAhead < end) prefetch(row(id[i + kRowsAhead]), width);
      values(id[i], out + i * width);
    }
  });
  rows = rows.to(ids.device());
  if (is_training() && torch::GradMode::is_enabled()) {
    rows.requires_grad_();
    lookups_.push_back({wanted, rows});
  }
  return rows;
}

void SparseEmbeddingImpl::step(World& world) {
  std::vector<torch::Tensor> ids{torch::empty({0}, torch::kInt64)},
      gradients{torch::empty({0, options_.width}, torch::kFloat32)};
  for (const Lookup& lookup : std::exchange(lookups_, {})) {
    if (!lookup.rows.grad().defined()) continue;
    ids.push_back(lookup.ids);
    gradients.push_back(lookup.rows.grad().cpu());
  }
  const torch::Tensor all_ids = torch::cat(world.gather_rows(torch::cat(ids))),
                      all_gradients = torch::cat(world.gather_rows(torch::cat(gradients)));
  if (all_ids.size(0) > 0) learn(all_ids, all_gradients, 1 / static_cast<float>(world.size()));
}

void SparseEmbeddingImpl::learn(const torch::Tensor& ids, const torch::Tensor& gradients, float share) {
  ++steps_;
  power1_ *= options_.beta1;
  power2_ *= options_.beta2;
  const AdamStep step{.size = static_cast<float>(options_.lr * std::sqrt(1 - power2_) / (1 - power1_)),
                      .mean_share = static_cast<float>(1 - options_.beta1),
                      .square_share = static_cast<float>(1 - options_.beta2),
                      .epsilon = static_cast<float>(options_.epsilon)};
  const Groups groups(ids);
  const std::int64_t *id = groups.ids.const_data_ptr<std::int64_t>(),
                     *order = groups.order.const_data_ptr<std::int64_t>();
  const float* gradient = gradients.const_data_ptr<float>();
  const std::int64_t width = options_.width;
  std::atomic<std::int64_t> first_learned = 0;
  at::parallel_for(0, groups.count(), kEmbeddingGrain, [&](std::int64_t begin, std::int64_t end) {
    std::vector<float> sum(static_cast<std::size_t>(width));
    std::int64_t first = 0;
    for (std::int64_t group = begin; group < end; ++group) {
      if (group + kRowsAhead < end)
        prefetch(row(id[groups.begin[static_cast<std::size_t>(group + kRowsAhead)]]), 3 * width);
      const std::int64_t from = groups.begin[static_cast<std::size_t>(group)],
                         to = groups.begin[static_cast<std::size_t>(group) + 1];
      std::copy_n(gradient + order[from] * width, width, sum.begin());
      for (std::int64_t i = from + 1; i < to; ++i) {
        const float* more = gradient + order[i] * width;
        for (std::int64_t f = 0; f < width; ++f) sum[static_cast<std::size_t>(f)] += more[f];
      }
      for (float& value : sum) value *= share;
      std::uint8_t& learned = learned_[static_cast<std::size_t>(id[from])];
      if (learned == 0) {  // its means are 0, as the mapping gives them
        values(id[from], row(id[from]));
        learned = 1;
        ++first;
      }
      adam_step(step, sum.data(), width, row(id[from]));
    }
    first_learned += first;
  });
  num_learned_ += first_learned;
}

/// The first `numbers` of each learned row, and what the table is.
void SparseEmbeddingImpl::write_rows(torch::serialize::OutputArchive& archive, std::int64_t numbers,
                                     std::int64_t steps) const {
  torch::Tensor ids = torch::empty({num_learned_}, torch::kInt64),
                rows = torch::empty({num_learned_, numbers}, torch::kFloat32);
  std::int64_t* id = ids.mutable_data_ptr<std::int64_t>();
  float* out = rows.mutable_data_ptr<float>();
  for (std::int64_t i = 0; i < options_.rows; ++i) {
    if (learned_[static_cast<std::size_t>(i)] == 0) continue;
    *id++ = i;
    out = std::copy_n(row(i), numbers, out);
  }
  archive.write("learned", ids, /*is_buffer=*/true);
  archive.write("rows", rows, /*is_buffer=*/true);
  archive.write(
      "table",
      torch::tensor({options_.rows, options_.width, static_cast<std::int64_t>(options_.seed), steps},
                    torch::kInt64),
      /*is_buffer=*/true);
}

void SparseEmbeddingImpl::save(torch::serialize::OutputArchive& archive) const {
  write_rows(archive, 3 * options_.width, steps_);
  archive.write("powers", torch::tensor({power1_, power2_}, torch::kFloat64), /*is_buffer=*/true);
}

void SparseEmbeddingImpl::save_values(torch::serialize::OutputArchive& archive) const {
  write_rows(archive, options_.width, 0);
}

void SparseEmbeddingImpl::load(torch::serialize::InputArchive& archive) {
  torch::Tensor ids, rows, table, powers;
  archive.read("learned", ids, true);
  archive.read("rows", rows, true);
  archive.read("table", table, true);
  const bool whole = archive.try_read("powers", powers, true);  // else save_values() wrote it
  const std::int64_t numbers = (whole ? 3 : 1) * options_.width, count = ids.numel();
  const bool fits =
      table.numel() == 4 && table[0].item<std::int64_t>() == options_.rows &&
      table[1].item<std::int64_t>() == options_.width &&
      table[2].item<std::int64_t>() == static_cast<std::int64_t>(options_.seed) &&
      rows.numel() == count * numbers && (!whole || powers.numel() == 2) &&
      rows.scalar_type() == torch::kFloat32 && ids.scalar_type() == torch::kInt64 &&
      (count == 0 || (ids.min().item<std::int64_t>() >= 0 && ids.max().item<std::int64_t>() < options_.rows));
  if (!fits) throw std::runtime_error("another table");
  madvise(table_.get(), table_.get_deleter().bytes, MADV_DONTNEED);  // zeroes again
  std::ranges::fill(learned_, std::uint8_t{0});
  const std::int64_t* id = ids.const_data_ptr<std::int64_t>();
  for (std::int64_t i = 0; i < count; ++i) {
    std::copy_n(rows.const_data_ptr<float>() + i * numbers, numbers, row(id[i]));
    learned_[static_cast<std::size_t>(id[i])] = 1;
  }
  num_learned_ = count;
  steps_ = table[3].item<std::int64_t>();
  power1_ = whole ? powers[0].item<double>() : 1;
  power2_ = whole ? powers[1].item<double>() : 1;
  lookups_.clear();
}

}  // namespace hopfeed
