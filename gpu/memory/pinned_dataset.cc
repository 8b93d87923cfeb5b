// See pinned_dataset.h. The memfd has the arrays of Dataset::arrays() one behind the other, each at a whole
// page.
#include "gpu/memory/pinned_dataset.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <map>
#include <mutex>
#include <utility>

#include "channel/machine_memory.h"
#include "core/base/error.h"
#include "core/base/huge_pages.h"
#include "core/base/memory_file.h"
#include "core/base/memory_limits.h"
#include "gpu/memory/near_gpu.h"
#include "gpu/memory/setup_times.h"

namespace hopfeed::gpu {
namespace {

constexpr std::size_t kPage = 4096;
constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;

std::size_t whole_pages(std::size_t bytes) { return (bytes + kPage - 1) / kPage * kPage; }

std::size_t bytes_of(std::span<const std::span<const std::byte>> arrays) {
  std::size_t bytes = 0;
  for (const std::span<const std::byte> array : arrays) bytes += whole_pages(array.size());
  return bytes;
}

std::byte* map(int fd, std::size_t bytes) {
  void* const at = mmap(huge_page_hint(bytes), bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (at == MAP_FAILED) throw_errno("cannot map the dataset's pinned copy", errno);
  madvise(at, bytes, MADV_HUGEPAGE);  // where the system gives none, 4 KiB pages do
  return static_cast<std::byte*>(at);
}

/// Copies of this process, by where their originals begin.
struct Known {
  std::mutex mutex;
  struct Copy {
    std::size_t bytes = 0;
    const std::byte* at = nullptr;
  };
  std::map<const std::byte*, Copy> copies;
};

Known& known() {
  static Known all;
  return all;
}

}  // namespace

OwnedFd PinnedDataset::copy(const Dataset& dataset, std::optional<int> memory_node) {
  constexpr const char* what = "cannot create memory for the dataset's pinned copy";
  const SetupTimer timer(Setup::kCopying);
  const std::vector<std::span<const std::byte>> arrays = dataset.arrays();
  const std::size_t bytes = bytes_of(arrays);
  require_memory(bytes, available_memory(),
                 fmt::format("the dataset {} in pinned memory, which a GPU reads in place (graph mode uva)",
                             dataset.folder().string()),
                 "take graph mode cuda, where the graph is copied to the GPU, or cpu");
  OwnedFd fd = make_memory_file({.name = "hopfeed-pinned-dataset", .what = what, .sealable = true});
  if (ftruncate(fd.get(), static_cast<off_t>(bytes)) != 0) throw_errno(what, errno);
  if (memory_node && bytes > 0) {  // the file keeps the wish
    std::byte* const at = map(fd.get(), bytes);
    prefer_memory_node(at, bytes, *memory_node);
    munmap(at, bytes);
  }
  int error = EINTR;  // taken now, so that a lack of memory is an error here and no signal while it is filled
  while (error == EINTR) error = posix_fallocate(fd.get(), 0, static_cast<off_t>(std::max(bytes, kPage)));
  if (error != 0)
    throw Error(
        ErrorCode::kNoSpace,
        fmt::format("there is no memory for {} of the dataset's pinned copy ({}); take graph mode cuda "
                    "or cpu",
                    format_bytes(bytes), std::strerror(error)));
  if (bytes > 0) {
    std::byte* const at = map(fd.get(), bytes);
    std::byte* to = at;
    for (const std::span<const std::byte> array : arrays) {
      std::ranges::copy(array, to);
      to += whole_pages(array.size());
    }
    munmap(at, bytes);
  }
  if (fcntl(fd.get(), F_ADD_SEALS, kSeals) != 0) throw_errno(what, errno);
  return fd;
}

PinnedDataset::PinnedDataset(const Dataset& dataset, int fd, Pin pin)
    : arrays_(dataset.arrays()), pin_(std::move(pin)), bytes_(bytes_of(arrays_)) {
  struct stat file {};
  if (fstat(fd, &file) != 0 || (fcntl(fd, F_GET_SEALS) & kSeals) != kSeals ||
      static_cast<std::size_t>(file.st_size) < bytes_)
    throw Error(ErrorCode::kCorrupt, fmt::format("file descriptor {} is no pinned copy of the dataset {}", fd,
                                                 dataset.folder().string()));
  if (bytes_ == 0) return;
  data_ = map(fd, bytes_);
  try {
    const SetupTimer timer(Setup::kPinning);
    pin_.pin(data_, bytes_);
  } catch (...) {
    munmap(data_, bytes_);
    throw;
  }
  Known& all = known();
  const std::lock_guard lock(all.mutex);
  const std::byte* at = data_;
  for (const std::span<const std::byte> array : arrays_) {
    if (!array.empty()) all.copies[array.data()] = {.bytes = array.size(), .at = at};
    at += whole_pages(array.size());
  }
}

PinnedDataset::~PinnedDataset() {
  if (data_ == nullptr) return;
  {
    Known& all = known();
    const std::lock_guard lock(all.mutex);
    for (const std::span<const std::byte> array : arrays_) all.copies.erase(array.data());
  }
  pin_.unpin(data_);
  munmap(data_, bytes_);
}

std::shared_ptr<const PinnedDataset> pinned_on_machine(const Dataset& dataset, const Pin& pin) {
  static std::mutex mutex;  // over all of it: who comes second waits for the first
  static std::map<const Dataset*, std::weak_ptr<const PinnedDataset>> here;
  const std::lock_guard lock(mutex);
  std::erase_if(here, [](const auto& entry) { return entry.second.expired(); });
  if (const auto found = here.find(&dataset); found != here.end())
    if (auto pinned = found->second.lock()) return pinned;
  // By the manifest, and not by the fingerprint: the same content in another order has its rows elsewhere.
  struct Held {
    MachineMemory memory;
    PinnedDataset pinned;
    Held(const Dataset& dataset, const Pin& pin)
        : memory(fmt::format("pinned dataset {:016x} {}", manifest_hash(dataset.meta()),
                             std::filesystem::canonical(dataset.folder()).string()),
                 [&] { return PinnedDataset::copy(dataset, pin.memory_node); }),
          pinned(dataset, memory.fd(), pin) {}
  };
  const auto held = std::make_shared<const Held>(dataset, pin);
  const std::shared_ptr<const PinnedDataset> pinned(held, &held->pinned);
  here[&dataset] = pinned;
  return pinned;
}

const void* pinned_copy(const void* array) {
  const auto* const at = static_cast<const std::byte*>(array);
  Known& all = known();
  const std::lock_guard lock(all.mutex);
  auto found = all.copies.upper_bound(at);
  if (found == all.copies.begin()) return nullptr;
  --found;
  const std::ptrdiff_t in = at - found->first;
  return static_cast<std::size_t>(in) < found->second.bytes ? found->second.at + in : nullptr;
}

}  // namespace hopfeed::gpu
