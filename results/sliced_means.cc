// See sliced_means.h.
#include "results/sliced_means.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <span>
#include <string>

#include "core/base/disk_room.h"
#include "core/base/error.h"
#include "core/base/parallel_ranges.h"

namespace hopfeed {
namespace {

constexpr std::int64_t kRowsAtOnce = 4'096;

OwnedFd nameless(const std::filesystem::path& folder) {
  OwnedFd file(::open(folder.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600));
  if (file) return file;
  std::string path = (folder / "means.XXXXXX").string();
  file = OwnedFd(::mkostemp(path.data(), O_CLOEXEC));
  if (!file) throw_errno("cannot make a file in " + folder.string(), errno);
  ::unlink(path.c_str());
  return file;
}

/// Columns are copies of columns of all rows that edges may lead to, as float32: parts one behind the other,
/// then the boundary.
struct Columns {
  /// Copies them to `out`, which must outlive them.
  Columns(const SourceRows& all, std::int64_t begin, std::int64_t end, int threads, float* out);
  Columns(const Columns&) = delete;
  Columns& operator=(const Columns&) = delete;

  std::vector<std::uint64_t> arrays;
  SourceRows rows;
};

Columns::Columns(const SourceRows& all, std::int64_t begin, std::int64_t end, int threads, float* out)
    : arrays(all.table.arrays.size()), rows{.width = end - begin, .table = all.table} {
  const std::int64_t width = rows.width;
  rows.table.arrays = arrays;
  rows.table.stride = rows.table.elsewhere_stride = static_cast<std::size_t>(width) * sizeof(float);
  const auto copy = [&](const std::byte* rows, std::int64_t count, std::size_t stride) {
    parallel_ranges(threads, count, [&](int, std::int64_t first, std::int64_t last) {
      std::vector<float> whole(static_cast<std::size_t>(all.width));
      for (std::int64_t row = first; row < last; ++row) {
        const std::byte* const from = rows + static_cast<std::size_t>(row) * stride;
        const float* values = whole.data();
        if (all.type == ElementType::kFloat32)
          values = reinterpret_cast<const float*>(from);
        else
          decode_row(all.type, all.width, from, whole.data());
        std::copy_n(values + begin, width, out + row * width);
      }
    });
    const auto* const made = reinterpret_cast<const std::byte*>(out);
    out += count * width;
    return made;
  };
  const RowTable& from = all.table;
  for (std::size_t p = 0; p < arrays.size(); ++p)
    if (from.arrays[p] != 0)
      arrays[p] = reinterpret_cast<std::uintptr_t>(copy(from.rows_of(p), from.height(p), from.stride));
  if (from.elsewhere != nullptr)
    rows.table.elsewhere_rows = copy(from.elsewhere_rows, from.elsewhere->size(), from.elsewhere_stride);
}

}  // namespace

SlicedMeans::SlicedMeans(const Dataset& dataset, const TableRows& sources, int edge_type,
                         const std::filesystem::path& folder, std::uint64_t memory, int threads,
                         const std::function<void()>& between)
    : file_(nameless(folder)), width_(sources.rows().width) {
  const CscView csc = dataset.csc(edge_type);
  for (int p = 0; p < dataset.meta().partitions; ++p) {
    firsts_.push_back(rows_);
    if (dataset.has_partition(p)) rows_ += csc.parts[static_cast<std::size_t>(p)].num_rows;
  }
  const std::uint64_t a_column = static_cast<std::uint64_t>(sources.count()) * sizeof(float);
  const std::int64_t columns = std::min<std::int64_t>(
      width_, static_cast<std::int64_t>(memory / std::max<std::uint64_t>(a_column, 1)));
  if (columns == 0)
    throw Error(ErrorCode::kNoSpace, "one column of the rows takes " + std::to_string(a_column) +
                                         " bytes, and the memory is " + std::to_string(memory) +
                                         "; give more (--memory), or cut the graph into more partitions");
  for (std::int64_t begin = 0; begin < width_; begin += columns)
    slices_.push_back({.begin = begin, .end = std::min(width_, begin + columns)});
  bytes_ = static_cast<std::size_t>(rows_ * width_) * sizeof(float);
  if (bytes_ == 0) return;
  require_disk_room(folder, bytes_, folder / "means");
  if (::ftruncate(file_.get(), static_cast<off_t>(bytes_)) != 0)
    throw_write_errno(folder / "means", errno, bytes_);
  for (const Slice& slice : slices_) {
    compute(dataset, sources, edge_type, slice, threads);
    between();
  }
  void* const mapped = ::mmap(nullptr, bytes_, PROT_READ, MAP_SHARED, file_.get(), 0);
  if (mapped == MAP_FAILED) throw_errno("cannot map the means in " + folder.string(), errno);
  data_ = static_cast<const std::byte*>(mapped);
}

SlicedMeans::~SlicedMeans() {
  if (data_ != nullptr) ::munmap(const_cast<std::byte*>(data_), bytes_);
}

void SlicedMeans::compute(const Dataset& dataset, const TableRows& sources, int edge_type, const Slice& slice,
                          int threads) const {
  const std::unique_ptr<float[]> memory(new float[static_cast<std::size_t>(sources.count() * slice.width())]);
  const Columns columns(sources.rows(), slice.begin, slice.end, threads, memory.get());
  const CscView csc = dataset.csc(edge_type);
  for (const int part : dataset.partitions()) {
    const std::int64_t rows = csc.parts[static_cast<std::size_t>(part)].num_rows;
    const std::int64_t first = rows_ * slice.begin + firsts_[static_cast<std::size_t>(part)] * slice.width();
    parallel_ranges(threads, (rows + kRowsAtOnce - 1) / kRowsAtOnce,
                    [&](int, std::int64_t begin_block, std::int64_t end_block) {
                      std::vector<float> means(static_cast<std::size_t>(kRowsAtOnce * slice.width()));
                      for (std::int64_t block = begin_block; block < end_block; ++block) {
                        const std::int64_t begin = block * kRowsAtOnce,
                                           end = std::min(rows, begin + kRowsAtOnce);
                        mean_of_sources(columns.rows, csc, {.part = part, .begin = begin, .end = end},
                                        means.data(), slice.width());
                        std::span<const std::byte> left = std::as_bytes(
                            std::span(means).first(static_cast<std::size_t>((end - begin) * slice.width())));
                        auto at = static_cast<off_t>((first + begin * slice.width()) *
                                                     static_cast<std::int64_t>(sizeof(float)));
                        while (!left.empty()) {
                          const ssize_t written = ::pwrite(file_.get(), left.data(), left.size(), at);
                          if (written < 0 && errno != EINTR)
                            throw_errno("cannot write means to the folder of layers", errno);
                          if (written <= 0) continue;
                          left = left.subspan(static_cast<std::size_t>(written));
                          at += written;
                        }
                      }
                    });
  }
}

void SlicedMeans::write(int part, std::int64_t begin, std::int64_t end, float* out,
                        std::int64_t stride) const {
  const auto* const all = reinterpret_cast<const float*>(data_);
  for (const Slice& slice : slices_) {
    const float* from =
        all + rows_ * slice.begin + (firsts_[static_cast<std::size_t>(part)] + begin) * slice.width();
    for (std::int64_t row = 0; row < end - begin; ++row, from += slice.width())
      std::copy_n(from, slice.width(), out + row * stride + slice.begin);
  }
}

}  // namespace hopfeed
