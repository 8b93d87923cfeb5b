// See partition_rows.h.
#include "results/partition_rows.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>

#include "core/base/error.h"
#include "core/base/owned_fd.h"

namespace hopfeed {
namespace {

constexpr std::size_t kPage = 4'096;

[[noreturn]] void throw_gap(const std::filesystem::path& path) {
  throw Error(ErrorCode::kCorrupt, path.string() +
                                       " is gone, or not as large as its rows; remove the folder " +
                                       "of layers, and all is computed anew");
}

}  // namespace

PartitionRows::PartitionRows(const LayerFolder& folder, const LayerName& name, int partition,
                             std::int64_t rows, std::int64_t row_bytes)
    : bytes_(static_cast<std::size_t>(rows * row_bytes)) {
  if (bytes_ == 0) return;
  // Behind the rows there is room for the last shard's foot.
  bytes_ = (bytes_ + sizeof(ShardFoot) + kPage - 1) / kPage * kPage;
  void* const room = ::mmap(nullptr, bytes_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (room == MAP_FAILED)
    throw_errno("no addresses for the rows of " + folder.table_folder(name).string(), errno);
  data_ = static_cast<std::byte*>(room);
  try {
    std::int64_t next = 0;
    for (const std::int64_t first : folder.firsts(name, partition)) {
      const std::filesystem::path path = folder.shard_path(name, partition, first);
      const LayerShard shard(path, folder.run);
      if (first != next || shard.first() != first || shard.row_bytes() != row_bytes ||
          first + shard.rows() > rows || (first + shard.rows() < rows && shard.rows() % kRowsTogether != 0))
        throw_gap(path);
      if (shard.rows() == 0) continue;
      const OwnedFd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
      if (!file) throw_errno("cannot open " + path.string(), errno);
      const auto bytes = static_cast<std::size_t>(shard.rows() * row_bytes);
      std::byte* const at = data_ + static_cast<std::size_t>(first * row_bytes);
      if (::mmap(at, bytes, PROT_READ, MAP_SHARED | MAP_FIXED | MAP_POPULATE, file.get(), 0) == MAP_FAILED)
        throw_errno("cannot map " + path.string(), errno);
      ranges_.push_back(note_mapped_range(at, bytes, path.string()));
      next = first + shard.rows();
    }
    if (next != rows) throw_gap(folder.shard_path(name, partition, next));
  } catch (...) {
    unmap();
    throw;
  }
}

PartitionRows::~PartitionRows() { unmap(); }

void PartitionRows::unmap() {
  for (MappedRange* const range : ranges_) forget_mapped_range(range);
  if (data_ != nullptr) ::munmap(data_, bytes_);
}

}  // namespace hopfeed
