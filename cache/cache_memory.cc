// See cache_memory.h.
#include "cache/cache_memory.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <new>
#include <ranges>

#include "core/base/error.h"
#include "core/base/limits.h"
#include "core/base/memory_file.h"
#include "core/base/memory_limits.h"

namespace hopfeed {
namespace {

constexpr int kCacheSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;
constexpr std::uint64_t kLine = 64;
constexpr std::uint64_t kMostFrames = ~std::uint32_t{0} - 1;  // numbers + 1 are 32 bits
constexpr std::uint64_t kMostSections = std::uint64_t{kMaxTypes} * kMaxAttrs * 2;

constexpr std::uint64_t up(std::uint64_t bytes, std::uint64_t unit) {
  return (bytes + unit - 1) / unit * unit;
}

/// The places of a table of rows for so many frames; 0 where each row has its own for less. They are for the
/// rows that announced batches want too: a third of what the frames take, and eight a frame at least.
std::uint64_t places_for(const CacheSectionShape& section) {
  constexpr std::uint64_t kPlacesAFrame = 8, kLeast = 512, kPlace = sizeof(std::uint64_t) + sizeof(CacheRow);
  const std::uint64_t frames =
      section.num_frames * (sizeof(CacheFrame) + static_cast<std::uint64_t>(section.row_bytes));
  const std::uint64_t places =
      up(std::max({frames / (3 * kPlace), kPlacesAFrame * section.num_frames, kLeast}), kPlacesOfABucket);
  return places * kPlace < static_cast<std::uint64_t>(section.rows) * sizeof(CacheRow) ? places : 0;
}

/// The arrays of a section that begins at `at`; returns where the next one may.
std::uint64_t place_arrays(CacheSectionShape& section, std::uint64_t at) {
  const auto rows = static_cast<std::uint64_t>(section.rows);
  section.num_places = places_for(section);
  section.keys_offset = up(at, kLine);
  section.rows_offset = up(section.keys_offset + section.num_places * sizeof(std::uint64_t), kLine);
  section.heat_offset = up(
      section.rows_offset + (section.num_places == 0 ? rows : section.num_places) * sizeof(CacheRow), kLine);
  section.records_offset =
      up(section.heat_offset + (section.num_runs == 0 ? rows : section.num_runs * sizeof(HeatRun)), kLine);
  section.frames_offset = up(section.records_offset + section.num_frames * sizeof(CacheFrame), kLine);
  return section.frames_offset + section.num_frames * static_cast<std::uint64_t>(section.row_bytes);
}

constexpr std::uint64_t first_array(std::uint64_t sections) { return kCachePage * (1 + sections); }

std::uint64_t place_all(std::span<CacheSectionShape> sections) {
  std::uint64_t at = first_array(sections.size());
  for (CacheSectionShape& section : sections) at = place_arrays(section, at);
  return at;
}

/// Gives each section this share of its rows as frames, one at least unless it is 0. Returns what all takes
/// at most: to the end of a page.
std::uint64_t give(std::span<CacheSectionShape> sections, double share) {
  const std::uint64_t least = share > 0 ? 1 : 0;
  for (CacheSectionShape& section : sections)
    section.num_frames = std::clamp(static_cast<std::uint64_t>(share * static_cast<double>(section.rows)),
                                    least, std::min(kMostFrames, static_cast<std::uint64_t>(section.rows)));
  return place_all(sections) + kCachePage - 1;
}

/// The greatest share that fits into `bytes`; 0 where none does.
double share_in(std::span<CacheSectionShape> sections, std::size_t bytes) {
  double share = 0, more = 1;  // the second does not fit
  if (give(sections, more) <= bytes) return more;
  constexpr int kHalvings = 60;
  for (int i = 0; i < kHalvings; ++i) {
    const double middle = (share + more) / 2;
    (give(sections, middle) <= bytes ? share : more) = middle;
  }
  return share;
}

/// Gives each section as many frames as fit into `bytes`, the same share of the rows of each. Returns the
/// bytes of the memory.
std::uint64_t share_out(std::span<CacheSectionShape> sections, std::size_t bytes) {
  give(sections, share_in(sections, bytes));
  if (std::ranges::all_of(sections, [](const CacheSectionShape& section) { return section.num_frames > 0; }))
    return up(place_all(sections), kCachePage);
  constexpr double kLeastShare = 1e-300;
  const std::uint64_t wanted = up(give(sections, kLeastShare), std::uint64_t{1} << 20);
  throw Error(ErrorCode::kInvalid,
              fmt::format("a cache of {} has no room for a row of each attribute; give it {} or more",
                          format_bytes(bytes), format_bytes(wanted)));
}

OwnedFd create_cache_memfd() {
  return make_memory_file({.name = "hopfeed-cache",
                           .what = "cannot create the cache (memfd_create)",
                           .sealable = true,
                           .executable = false});
}

std::byte* map_cache(int fd, std::size_t size) {
  void* const data = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (data == MAP_FAILED) throw_errno(fmt::format("cannot map the cache of {} bytes", size), errno);
  madvise(data, size, MADV_DONTDUMP);  // a core file needs no rows
  return static_cast<std::byte*>(data);
}

void init_mutex(pthread_mutex_t& mutex) {
  pthread_mutexattr_t attributes;
  pthread_mutexattr_init(&attributes);
  pthread_mutexattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
  pthread_mutexattr_setrobust(&attributes, PTHREAD_MUTEX_ROBUST);
  const int error = pthread_mutex_init(&mutex, &attributes);
  pthread_mutexattr_destroy(&attributes);
  if (error != 0) throw_errno("cannot make the cache's mutex", error);
}

CacheSectionShape describe(const CachedAttr& attr) {
  require_valid(attr.what.name.size() <= kMaxNameBytes && attr.rows <= kMaxEdges && attr.row_bytes > 0 &&
                    attr.row_bytes <= kMaxRowBytes,
                fmt::format("'{}' has {} rows of {} bytes, which is more than a cache takes", attr.what.name,
                            attr.rows, attr.row_bytes));
  CacheSectionShape section;
  section.store = static_cast<std::uint32_t>(attr.what.store);
  section.type = static_cast<std::uint32_t>(attr.what.type);
  std::ranges::copy(attr.what.name, section.name);
  section.rows = attr.rows;
  section.row_bytes = attr.row_bytes;
  section.num_runs = attr.heat.runs();
  return section;
}

std::vector<const CachedAttr*> with_rows(std::span<const CachedAttr> attrs) {
  std::vector<const CachedAttr*> with;
  for (const CachedAttr& attr : attrs)
    if (attr.rows > 0) with.push_back(&attr);
  return with;
}

std::vector<CacheSectionShape> shapes_of(std::span<const CachedAttr> attrs) {
  std::vector<CacheSectionShape> shapes;
  for (const CachedAttr* attr : with_rows(attrs)) shapes.push_back(describe(*attr));
  return shapes;
}

void write_section(const CacheSectionShape& shape, const CachedAttr& attr, std::byte* at, std::byte* heat) {
  auto& section = *new (at) CacheSectionRecord{};
  section.shape = shape;
  init_mutex(section.mutex);
  std::ranges::copy(attr.heat.bytes(), heat);
}

[[noreturn]] void throw_no_cache(int fd) {
  throw Error(ErrorCode::kCorrupt,
              fmt::format("file descriptor {} is no cache of hopfeed; start workers through a loader", fd));
}

/// The size of the cache behind a descriptor that may be anything; throws kCorrupt where it is no cache.
std::size_t sealed_size(int fd) {
  struct stat status {};
  const int seals = fcntl(fd, F_GET_SEALS);
  if (seals < 0 || (seals & kCacheSeals) != kCacheSeals || fstat(fd, &status) != 0 ||
      static_cast<std::size_t>(status.st_size) < kCachePage)
    throw_no_cache(fd);
  return static_cast<std::size_t>(status.st_size);
}

/// With locks of its own, which a duplicate would share.
OwnedFd open_anew(int fd) {
  constexpr const char* what = "cannot open the cache anew through /proc/self/fd";
  sealed_size(fd);
  const OwnedFd opened(open(fmt::format("/proc/self/fd/{}", fd).c_str(), O_RDWR | O_CLOEXEC), what);
  return out_of_the_way(opened, what);
}

bool sections_hold(std::span<CacheSectionRecord* const> sections, std::size_t size) {
  std::uint64_t at = first_array(sections.size());
  for (const CacheSectionRecord* section : sections) {
    CacheSectionShape shape = section->shape;
    if (shape.rows < 1 || shape.rows > kMaxEdges || shape.row_bytes < 1 || shape.row_bytes > kMaxRowBytes ||
        shape.num_frames < 1 || shape.num_frames > kMostFrames ||
        shape.num_frames > size / static_cast<std::uint64_t>(shape.row_bytes) ||
        shape.num_runs > size / sizeof(HeatRun))
      return false;
    at = place_arrays(shape, at);
    if (at > size || shape != section->shape) return false;
  }
  return up(at, kCachePage) == size;
}

}  // namespace

std::size_t dynamic_cache_bytes(std::span<const CachedAttr> attrs, double share) {
  std::vector<CacheSectionShape> shapes = shapes_of(attrs);
  return give(shapes, share);
}

double dynamic_cache_share(std::span<const CachedAttr> attrs, std::size_t bytes) {
  std::vector<CacheSectionShape> shapes = shapes_of(attrs);
  return share_in(shapes, bytes);
}

OwnedFd make_dynamic_cache(std::span<const CachedAttr> attrs, std::size_t bytes) {
  const std::vector<const CachedAttr*> kept = with_rows(attrs);
  require_valid(!kept.empty(), "nothing to cache: no attribute has rows that are read from files");
  std::vector<CacheSectionShape> shapes = shapes_of(attrs);
  const std::uint64_t size = share_out(shapes, bytes);
  require_memory(size, available_memory(), "the cache", "make it smaller");
  OwnedFd fd = create_cache_memfd();
  if (ftruncate(fd.get(), static_cast<off_t>(size)) != 0 || fcntl(fd.get(), F_ADD_SEALS, kCacheSeals) != 0)
    throw_errno(fmt::format("cannot make a cache of {} bytes", size), errno);
  std::byte* const memory = map_cache(fd.get(), size);
  try {
    for (std::size_t i = 0; i < kept.size(); ++i)
      write_section(shapes[i], *kept[i], memory + kCachePage * (1 + i), memory + shapes[i].heat_offset);
  } catch (...) {
    munmap(memory, size);
    throw;
  }
  auto& header = *new (memory) CacheHeader{};
  header.version = kCacheVersion;
  header.num_sections = static_cast<std::uint32_t>(kept.size());
  header.total_bytes = size;
  header.magic.store(kCacheMagic, std::memory_order_release);
  munmap(memory, size);
  return fd;
}

CacheMemory::CacheMemory(int fd) : fd_(open_anew(fd)), size_(sealed_size(fd_.get())) {
  data_ = map_cache(fd_.get(), size_);
  const CacheHeader& head = header();
  try {
    if (head.magic.load(std::memory_order_acquire) != kCacheMagic) throw_no_cache(fd);
    if (head.version != kCacheVersion)
      throw Error(ErrorCode::kVersion, fmt::format("the cache has version {}, and this program knows {}; use "
                                                   "the workers that came with the program",
                                                   head.version, kCacheVersion));
    if (head.total_bytes != size_ || head.num_sections < 1 || head.num_sections > kMostSections ||
        first_array(head.num_sections) > size_)
      throw_no_cache(fd);
    for (std::size_t i = 0; i < head.num_sections; ++i)
      sections_.push_back(reinterpret_cast<CacheSectionRecord*>(data_ + kCachePage * (1 + i)));
    if (!sections_hold(sections_, size_)) throw_no_cache(fd);
  } catch (...) {
    munmap(data_, size_);
    throw;
  }
}

CacheMemory::~CacheMemory() { munmap(data_, size_); }

}  // namespace hopfeed
