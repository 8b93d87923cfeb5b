// See partitioned_features.h.
#include "core/maker/partitioned_features.h"

#include <algorithm>
#include <cstring>

#include "core/base/prefetch.h"

namespace hopfeed {
namespace {

constexpr std::size_t kRowsAhead = 16;
constexpr std::size_t kBytesAhead = 1'024;  // of a long row: the processor goes on by itself

AttrView view_of(const Dataset& dataset, const FeatureName& feature) {
  return feature.store == Store::kNode ? dataset.attr(feature.type, feature.name)
                                       : dataset.edge_attr(feature.type, feature.name);
}

}  // namespace

PartitionedFeatures::PartitionedFeatures(const Dataset& dataset, const FeatureName& feature,
                                         std::unique_ptr<CachedRows> cache, AnnounceTurn* turn)
    : attr_(view_of(dataset, feature)),
      here_(dataset, feature.store, feature.type, attr_),
      cache_(std::move(cache)),
      turn_(turn),
      peers_(dataset, feature.store, feature.type, feature.name) {}

std::size_t PartitionedFeatures::prepare(std::span<const std::int64_t> ids) {
  drop();
  for (std::size_t i = 0; i < ids.size(); ++i) {
    rows_.push_back(here_.row(ids[i]));
    if (rows_.back() != nullptr) continue;
    others_.push_back(ids[i]);
    at_.push_back(i);
  }
  asked_.assign(others_.size(), cache_ == nullptr);
  if (cache_ == nullptr) {
    peers_.ask(others_, at_);
    return ids.size();
  }
  if (turn_ != nullptr) turn_->await();
  cache_->announce(others_);
  std::vector<std::int64_t> missing;
  std::vector<std::size_t> tags;
  for (const std::size_t i : cache_->absent()) {
    asked_[i] = 1;
    missing.push_back(others_[i]);
    tags.push_back(at_[i]);
  }
  peers_.ask(missing, tags);
  return ids.size();
}

// Rows that came are where answers have them, hits where the cache has them.
void PartitionedFeatures::take_all() {
  if (cache_ != nullptr)
    for (const CachedRows::Hit& hit : cache_->take())
      if (!asked_[hit.at]) rows_[at_[hit.at]] = hit.row;
  std::vector<std::int64_t> missing;
  std::vector<std::size_t> tags;
  std::int64_t asked = 0;
  for (std::size_t i = 0; i < others_.size(); ++i) {
    if (!asked_[i] && rows_[at_[i]] == nullptr) {
      asked_[i] = 1;
      missing.push_back(others_[i]);
      tags.push_back(at_[i]);
    }
    asked += asked_[i];
  }
  peers_.ask(missing, tags);
  peers_.take([&](std::size_t at, const std::byte* row) { rows_[at] = row; });
  const std::int64_t others = std::ssize(others_), own = std::ssize(rows_) - others;
  counts_.memory_rows += own;
  counts_.memory_bytes += own * attr_.row_bytes;
  counts_.peer_rows += asked;
  counts_.peer_bytes += asked * attr_.row_bytes;
  counts_.cache_rows += others - asked;
  counts_.cache_bytes += (others - asked) * attr_.row_bytes;
}

// The cache may write over them once the batch is kept.
void PartitionedFeatures::keep_hits_of_later_rows(std::size_t until) {
  const auto row_bytes = static_cast<std::size_t>(attr_.row_bytes);
  std::size_t count = 0;
  const auto is_later_hit = [&](std::size_t i) { return !asked_[i] && at_[i] >= until; };
  for (std::size_t i = 0; i < others_.size(); ++i) count += is_later_hit(i);
  later_.resize(count * row_bytes);
  std::byte* to = later_.data();
  for (std::size_t i = 0; i < others_.size(); ++i) {
    if (!is_later_hit(i)) continue;
    std::memcpy(to, rows_[at_[i]], row_bytes);
    rows_[at_[i]] = to;
    to += row_bytes;
  }
}

void PartitionedFeatures::gather(std::size_t rows, std::byte* out) {
  const auto row_bytes = static_cast<std::size_t>(attr_.row_bytes);
  const bool first = !taken_;
  if (first) {
    try {
      take_all();
    } catch (...) {  // what is pinned is let go of now, and not with the next batch
      if (cache_ != nullptr) cache_->drop();
      throw;
    }
    taken_ = true;
    keep_hits_of_later_rows(given_ + rows);
  }
  const std::span<const std::byte*> now = std::span(rows_).subspan(given_, rows);
  for (std::size_t i = 0; i < rows; ++i, out += row_bytes) {
    if (i + kRowsAhead < rows)
      for (std::size_t at = 0; at < std::min(row_bytes, kBytesAhead); at += 64)
        prefetch_line(now[i + kRowsAhead] + at);
    std::memcpy(out, now[i], row_bytes);
    now[i] = out;
  }
  given_ += rows;
  if (first && cache_ != nullptr) cache_->keep([this](std::size_t i) { return rows_[at_[i]]; });
}

void PartitionedFeatures::drop() {
  if (cache_ != nullptr) cache_->drop();
  peers_.drop();
  rows_.clear();
  others_.clear();
  at_.clear();
  taken_ = false;
  given_ = 0;
}

}  // namespace hopfeed
