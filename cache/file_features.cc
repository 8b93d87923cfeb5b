// See file_features.h.
#include "cache/file_features.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <utility>

#include "core/base/error.h"
#include "core/dataset/dataset.h"
#include "core/dataset/dataset_meta.h"
#include "core/dataset/graph_view.h"
#include "core/maker/mapped_features.h"
#include "core/maker/partitioned_features.h"

namespace hopfeed {
namespace {

constexpr int kOffsetBits = 48;  // of Wanted::at; 2^16 files, kMaxPartitions are fewer
constexpr std::uint64_t kOffsetMask = (std::uint64_t{1} << kOffsetBits) - 1;

// A gap between wanted pages is read along where a read of its own would cost a disk more than these bytes.
constexpr std::uint64_t kReadAlong = 2 * kReadAlign;

constexpr int kMostTries = 1'000;  // of a read that the kernel puts off

constexpr std::uint64_t page_begin(std::uint64_t offset) { return offset / kReadAlign * kReadAlign; }
constexpr std::uint64_t page_end(std::uint64_t offset) { return page_begin(offset + kReadAlign - 1); }

/// A row may begin anywhere in its first page.
ReaderOptions fitting(ReaderOptions options, std::int64_t row_bytes) {
  const std::size_t least = page_end(static_cast<std::uint64_t>(row_bytes)) + kReadAlign;
  options.buffer_bytes = std::max(options.buffer_bytes, least);
  return options;
}

std::unique_ptr<FileReader> open_reader(const RowFiles& rows, const FileFeaturesOptions& options) {
  std::vector<int> files;
  for (const RowFile& file : rows.files) files.push_back(file.fd());
  return options.open_reader(files, fitting(options.reader, rows.row_bytes));
}

}  // namespace

RowFiles open_row_files(const Dataset& dataset, const FeatureName& feature, RowFile::Access wanted) {
  const bool node = feature.store == Store::kNode;
  const AttrView attr =
      node ? dataset.attr(feature.type, feature.name) : dataset.edge_attr(feature.type, feature.name);
  RowFiles rows{.files = {},
                .partition_offsets = attr.partition_offsets,
                .row_bytes = attr.row_bytes,
                .stride_bytes = attr.stride_bytes};
  const DatasetMeta& meta = dataset.meta();
  const auto type = static_cast<std::size_t>(feature.type);
  for (int p = 0; p < meta.partitions; ++p)
    rows.files.emplace_back(
        dataset.folder() / (node ? attr_path(p, meta.node_types[type], feature.name)
                                 : edge_attr_path(p, meta.edge_types[type], feature.name)),
        wanted);
  return rows;
}

FileFeatures::FileFeatures(RowFiles rows, const FileFeaturesOptions& options,
                           std::unique_ptr<CachedRows> cache)
    : rows_(std::move(rows)),
      cache_(std::move(cache)),
      read_deadline_(options.read_deadline),
      reader_(open_reader(rows_, options)),
      under_way_(static_cast<std::size_t>(reader_->options().depth)) {
  for (int buffer = reader_->options().depth; buffer-- > 0;) idle_.push_back(buffer);
}

FileFeatures::~FileFeatures() = default;  // the reader waits for what is under way

FileFeatures::Means FileFeatures::means() const {
  return {.reader = reader_->name(), .direct = std::ranges::all_of(rows_.files, [](const RowFile& file) {
                                       return file.access() == RowFile::Access::kDirect;
                                     })};
}

std::size_t FileFeatures::prepare(std::span<const std::int64_t> ids) {
  drop();
  drop_reads();
  ids_ = ids;
  if (cache_) {
    cache_->announce(ids);
    for (const std::size_t row : cache_->absent()) want(row);
  } else {
    for (std::size_t row = 0; row < ids.size(); ++row) want(row);
  }
  std::ranges::sort(wanted_, {}, &Wanted::at);
  start_reads();
  reader_->submit();
  return ids.size();
}

void FileFeatures::want(std::size_t row) {
  const std::int64_t id = ids_[row];
  const int part = partition_of(rows_.partition_offsets, id);
  const auto p = static_cast<std::size_t>(part);
  const auto in_part = static_cast<std::uint64_t>(id - rows_.partition_offsets[p]);
  const std::uint64_t offset =
      rows_.files[p].data_offset() + in_part * static_cast<std::uint64_t>(rows_.stride_bytes);
  wanted_.push_back({.at = static_cast<std::uint64_t>(p) << kOffsetBits | offset, .row = row});
}

void FileFeatures::drop() {
  if (cache_) cache_->drop();
  wanted_.clear();
  later_.clear();
  ids_ = {};
  next_ = arrived_ = given_ = until_ = 0;
  came_ = false;
}

/// Waits out the reads of a batch that was given up, or in which a read failed.
void FileFeatures::drop_reads() {
  while (reader_->under_way() > 0) {
    const auto done = reader_->wait(read_deadline_);
    if (!done)
      throw Error(ErrorCode::kTimeout,
                  fmt::format("reads of {} have not ended for {} ms; look at its disk",
                              rows_.files.front().path().string(), read_deadline_.count()));
  }
  idle_.clear();
  for (int buffer = reader_->options().depth; buffer-- > 0;) idle_.push_back(buffer);
}

void FileFeatures::start_reads() {
  while (!idle_.empty() && next_ < wanted_.size()) {
    const int buffer = idle_.back();
    idle_.pop_back();
    start_read(buffer);
  }
}

/// Starts to read pages from the next row's on, as far as rows touch them without a wide gap and the buffer
/// goes.
void FileFeatures::start_read(int buffer) {
  UnderWay& read = under_way_[static_cast<std::size_t>(buffer)];
  const auto row_bytes = static_cast<std::uint64_t>(rows_.row_bytes);
  const std::uint64_t file = wanted_[next_].at >> kOffsetBits;
  const std::uint64_t begin = page_begin(wanted_[next_].at & kOffsetMask);
  std::uint64_t row_end = begin;
  read.first = next_;
  while (next_ < wanted_.size()) {
    const std::uint64_t at = wanted_[next_].at, offset = at & kOffsetMask;
    if (at >> kOffsetBits != file || offset + row_bytes > begin + reader_->options().buffer_bytes) break;
    if (next_ > read.first && page_begin(offset) > page_end(row_end) + kReadAlong) break;
    row_end = offset + row_bytes;
    ++next_;
  }
  read.last = next_;
  read.file = static_cast<int>(file);
  read.offset = begin;
  read.needed = row_end - begin;
  read.whole = page_end(row_end) - begin;
  read.have = 0;
  read.tries = 0;
  ++counts_.reads;
  counts_.read_bytes += static_cast<std::int64_t>(read.whole);
  ask(buffer);
}

/// For what is lacking of a read.
void FileFeatures::ask(int buffer) {
  const UnderWay& read = under_way_[static_cast<std::size_t>(buffer)];
  reader_->start({.buffer = buffer,
                  .into = read.have,
                  .file = read.file,
                  .offset = read.offset + read.have,
                  .bytes = static_cast<std::uint32_t>(read.whole - read.have)});
}

void FileFeatures::gather(std::size_t rows, std::byte* out) {
  const auto row_bytes = static_cast<std::size_t>(rows_.row_bytes);
  out_ = out;
  until_ = given_ + rows;
  if (came_) {
    if (rows > 0) std::memcpy(out, later_.data() + (given_ - later_from_) * row_bytes, rows * row_bytes);
  } else {
    later_from_ = until_;
    later_.resize((ids_.size() - until_) * row_bytes);
    try {
      gather_all();
    } catch (...) {  // what is pinned is let go of now, and not with the next batch
      if (cache_) cache_->drop();
      throw;
    }
    came_ = true;
  }
  given_ = until_;
}

/// All rows of the batch, wherever this call or a later one has them; then the cache may keep some.
void FileFeatures::gather_all() {
  std::span<const CachedRows::Hit> hits;
  if (cache_) {
    hits = take_hits();
    start_reads();
    reader_->submit();
    copy_hits(hits);
  }
  while (arrived_ < wanted_.size()) take_one();
  const auto cached = static_cast<std::int64_t>(ids_.size() - wanted_.size());
  const auto read = static_cast<std::int64_t>(wanted_.size());
  counts_.cache_rows += cached;
  counts_.cache_bytes += cached * rows_.row_bytes;
  counts_.file_rows += read;
  counts_.file_bytes += read * rows_.row_bytes;
  if (cache_) cache_->keep([this](std::size_t row) { return place_of(row); });
}

/// Takes the rows that are there, and wants the others. Those whose reads were begun before come from them,
/// even where another batch has brought them since.
std::span<const CachedRows::Hit> FileFeatures::take_hits() {
  wanted_.resize(next_);
  from_.assign(ids_.size(), From::kFile);
  for (const Wanted& begun : wanted_) from_[begun.row] = From::kBegun;
  const std::span<const CachedRows::Hit> hits = cache_->take();
  for (const CachedRows::Hit& hit : hits)
    if (from_[hit.at] == From::kFile) from_[hit.at] = From::kCache;
  for (std::size_t row = 0; row < ids_.size(); ++row)
    if (from_[row] == From::kFile) want(row);
  std::ranges::sort(wanted_.begin() + static_cast<std::ptrdiff_t>(next_), wanted_.end(), {}, &Wanted::at);
  return hits;
}

void FileFeatures::copy_hits(std::span<const CachedRows::Hit> hits) {
  const auto row_bytes = static_cast<std::size_t>(rows_.row_bytes);
  for (const CachedRows::Hit& hit : hits)
    if (from_[hit.at] == From::kCache) std::memcpy(place_of(hit.at), hit.row, row_bytes);
}

/// Where a row of the batch belongs: in this call's part of it or among those of later calls.
std::byte* FileFeatures::place_of(std::size_t row) {
  const auto row_bytes = static_cast<std::size_t>(rows_.row_bytes);
  return row < until_ ? out_ + (row - given_) * row_bytes : later_.data() + (row - later_from_) * row_bytes;
}

void FileFeatures::take_one() {
  const auto done = reader_->wait(read_deadline_);
  if (!done) {
    throw Error(ErrorCode::kTimeout,
                fmt::format("a read of {} has not ended after {} ms; look at its disk",
                            rows_.files.front().path().string(), read_deadline_.count()));
  }
  if (!came_whole(done->buffer, done->result)) {
    ask(done->buffer);
    return;
  }
  const UnderWay& read = under_way_[static_cast<std::size_t>(done->buffer)];
  copy_rows(read, reader_->buffers().at(done->buffer).data());
  arrived_ += read.last - read.first;
  idle_.push_back(done->buffer);
  start_reads();
}

/// Notes what a read brought. False: it has to be asked for what is lacking. The kernel may give less than
/// was asked, and each further read has to bring a page at least: what lies behind the end never comes.
bool FileFeatures::came_whole(int buffer, std::int64_t result) {
  UnderWay& read = under_way_[static_cast<std::size_t>(buffer)];
  if ((result == -EINTR || result == -EAGAIN) && ++read.tries < kMostTries) return false;
  if (result < 0) {
    throw_errno(fmt::format("cannot read {} at byte {} (look at its disk, or take features from memory)",
                            rows_.files[static_cast<std::size_t>(read.file)].path().string(),
                            read.offset + read.have),
                static_cast<int>(-result));
  }
  const std::size_t have = read.have + static_cast<std::size_t>(result);
  if (have >= read.needed) return true;
  if (page_begin(have) == read.have) cut_short(read, have);
  read.have = page_begin(have);
  return false;
}

void FileFeatures::cut_short(const UnderWay& read, std::size_t have) const {
  const RowFile& file = rows_.files[static_cast<std::size_t>(read.file)];
  struct stat status {};
  if (fstat(file.fd(), &status) == 0 && static_cast<std::uint64_t>(status.st_size) >= file.bytes())
    throw Error(ErrorCode::kIo, fmt::format("a read of {} stops at byte {} of {}; look at its disk",
                                            file.path().string(), read.offset + have, file.bytes()));
  throw Error(
      ErrorCode::kCorrupt,
      fmt::format("{} ends at byte {} and had {}: it was truncated while it was in use; put the dataset "
                  "back and check it with hopfeed-partition verify",
                  file.path().string(), status.st_size, file.bytes()));
}

void FileFeatures::copy_rows(const UnderWay& read, const std::byte* from) {
  const auto row_bytes = static_cast<std::size_t>(rows_.row_bytes);
  for (std::size_t i = read.first; i < read.last; ++i) {
    const std::byte* const row = from + ((wanted_[i].at & kOffsetMask) - read.offset);
    std::memcpy(place_of(static_cast<std::size_t>(wanted_[i].row)), row, row_bytes);
  }
}

FeatureSourceFactory feature_sources(FeaturesFrom from, DynamicCache* cache, AnnounceTurn* turn) {
  if (from == FeaturesFrom::kMemory)
    return [cache, turn](const Dataset& dataset,
                         const FeatureName& feature) -> std::unique_ptr<FeatureSource> {
      std::unique_ptr<CachedRows> rows = cache == nullptr || dataset.whole() ? nullptr : cache->open(feature);
      if (!rows) return mapped_features(dataset, feature);
      return std::make_unique<PartitionedFeatures>(dataset, feature, std::move(rows), turn);
    };
  return [cache](const Dataset& dataset, const FeatureName& feature) -> std::unique_ptr<FeatureSource> {
    const AttrView attr = feature.store == Store::kNode ? dataset.attr(feature.type, feature.name)
                                                        : dataset.edge_attr(feature.type, feature.name);
    if (attr.row_bytes < kLeastFileRowBytes) return mapped_features(dataset, feature);
    return std::make_unique<FileFeatures>(open_row_files(dataset, feature), FileFeaturesOptions{},
                                          cache == nullptr ? nullptr : cache->open(feature));
  };
}

}  // namespace hopfeed
