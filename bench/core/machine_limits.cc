// See machine_limits.h.
#include "bench/core/machine_limits.h"

#include <algorithm>
#include <cstring>
#include <span>
#include <string>
#include <vector>

#include "core/base/error.h"
#include "core/base/scratch.h"

namespace hopfeed::bench {
namespace {

constexpr std::size_t kReadsPerRound = 1 << 20, kGroup = 64, kBufferBytes = std::size_t{256} << 20;

// Marsaglia's xorshift: cheap enough not to be what is measured.
struct Xorshift {
  std::uint64_t state;
  std::uint64_t next() {
    state ^= state << 13;
    state ^= state >> 7;
    return state ^= state << 17;
  }
};

std::size_t below(std::uint64_t word, std::size_t bound) {
  return static_cast<std::size_t>((static_cast<unsigned __int128>(word) * bound) >> 64);
}

// Keeps the compiler from dropping what was read.
void consume(std::uint64_t value) { asm volatile("" : : "r"(value) : "memory"); }

void require_equal(bool equal, const char* what) {
  if (!equal)
    throw Error(ErrorCode::kCorrupt, std::string("the loop that measures ") + what +
                                         " computes something else than the plain loop");
}

Xorshift generator(int thread, std::int64_t repetition) {
  return {0x9E3779B97F4A7C15u * static_cast<std::uint64_t>(thread + 1) +
          static_cast<std::uint64_t>(repetition)};
}

// The indices of all partitions. The reads of a group go to one of them, which comes as often as its share of
// the edges says.
class Indices {
 public:
  explicit Indices(const CscView& csc) : csc_(csc) {
    if (csc.index_type != ElementType::kInt32)
      throw Error(ErrorCode::kUnsupported, "the limit is measured on int32 indices; these are int64");
    if (csc.num_edges == 0) throw Error(ErrorCode::kInvalid, "a graph without edges has no limit to measure");
    for (const CscPart& part : csc.parts) first_edges_.push_back(part.first_edge);
    first_edges_.push_back(csc.num_edges);
  }
  std::span<const std::int32_t> part(std::uint64_t word) const {
    const auto edge = static_cast<std::int64_t>(below(word, static_cast<std::size_t>(csc_.num_edges)));
    const CscPart& part = csc_.parts[static_cast<std::size_t>(partition_of(first_edges_, edge))];
    return {static_cast<const std::int32_t*>(part.indices), static_cast<std::size_t>(part.num_edges)};
  }

 private:
  const CscView& csc_;
  std::vector<std::int64_t> first_edges_;  // [P + 1]
};

// The sum of kReadsPerRound elements at random.
std::uint64_t read_ahead(const Indices& indices, Xorshift random) {
  const std::int32_t* at[2][kGroup];
  std::uint64_t sum = 0;
  for (std::size_t group = 0; group <= kReadsPerRound / kGroup; ++group) {
    const std::span<const std::int32_t> array = indices.part(random.next());
    const std::int32_t** ahead = at[group % 2];
    for (std::size_t i = 0; i < kGroup; ++i) {
      ahead[i] = array.data() + below(random.next(), array.size());
      __builtin_prefetch(ahead[i]);
    }
    if (group == 0) continue;
    for (const std::int32_t* read : at[(group + 1) % 2]) sum += static_cast<std::uint64_t>(*read);
  }
  return sum;
}

std::uint64_t read_plainly(const Indices& indices, Xorshift random) {
  std::uint64_t sum = 0;
  for (std::size_t group = 0; group < kReadsPerRound / kGroup; ++group) {
    const std::span<const std::int32_t> array = indices.part(random.next());
    for (std::size_t i = 0; i < kGroup; ++i)
      sum += static_cast<std::uint64_t>(array[below(random.next(), array.size())]);
  }
  return sum;
}

// Rows of an attribute at random.
struct RandomRows {
  const AttrView& attr;
  std::size_t num_rows;
  Xorshift random;
  const std::byte* next() {
    const auto node = static_cast<std::int64_t>(below(random.next(), num_rows));
    const int p = attr.parts.size() == 1 ? 0 : partition_of(attr.partition_offsets, node);
    return attr.parts[static_cast<std::size_t>(p)] +
           (node - attr.partition_offsets[static_cast<std::size_t>(p)]) * attr.stride_bytes;
  }
};

void gather_ahead(RandomRows source, std::size_t rows, std::byte* out) {
  constexpr std::size_t kAhead = 16;
  const auto row_bytes = static_cast<std::size_t>(source.attr.row_bytes);
  const std::byte* at[kAhead] = {};
  for (std::size_t i = 0; i < rows + kAhead; ++i) {
    if (i >= kAhead) std::memcpy(out + (i - kAhead) * row_bytes, at[i % kAhead], row_bytes);
    at[i % kAhead] = source.next();
    for (std::size_t line = 0; line < row_bytes; line += 64) __builtin_prefetch(at[i % kAhead] + line);
  }
}

std::uint64_t sum_of(const std::uint64_t* words, std::size_t count) {
  std::uint64_t sums[8] = {};
  for (std::size_t i = 0; i < count; i += 8) {
    for (std::size_t lane = 0; lane < 8; ++lane) sums[lane] += words[i + lane];
  }
  std::uint64_t sum = 0;
  for (std::uint64_t lane : sums) sum += lane;
  return sum;
}

}  // namespace

Rate random_reads_per_s(const CscView& csc, const LimitOptions& options) {
  const Indices indices(csc);
  if (options.verify)
    require_equal(read_ahead(indices, generator(0, 0)) == read_plainly(indices, generator(0, 0)),
                  "random reads");
  return rate(options.threads, options.seconds, [&](int thread, std::int64_t repetition) {
    consume(read_ahead(indices, generator(thread, repetition)));
    return kReadsPerRound;
  });
}

Rate row_gather_bytes_per_s(const AttrView& attr, std::int64_t num_rows, const LimitOptions& options) {
  const std::size_t row_bytes = static_cast<std::size_t>(attr.row_bytes),
                    rows = std::min(kBufferBytes / row_bytes, static_cast<std::size_t>(num_rows));
  std::vector<ScratchArray<std::byte>> buffers(static_cast<std::size_t>(options.threads));
  for (auto& buffer : buffers) buffer.reserve(rows * row_bytes);
  const auto source = [&](int thread, std::int64_t repetition) {
    return RandomRows{attr, static_cast<std::size_t>(num_rows), generator(thread, repetition)};
  };
  if (options.verify) {
    gather_ahead(source(0, 0), rows, buffers[0].data());
    RandomRows plain = source(0, 0);
    for (std::size_t i = 0; i < rows; ++i)
      require_equal(std::memcmp(buffers[0].data() + i * row_bytes, plain.next(), row_bytes) == 0,
                    "row gathers");
  }
  return rate(options.threads, options.seconds, [&](int thread, std::int64_t repetition) {
    gather_ahead(source(thread, repetition), rows, buffers[static_cast<std::size_t>(thread)].data());
    return rows * row_bytes;
  });
}

Rate copy_bytes_per_s(const LimitOptions& options) {
  std::vector<ScratchArray<std::byte>> buffers(static_cast<std::size_t>(options.threads));
  for (auto& buffer : buffers) {
    buffer.reserve(2 * kBufferBytes);
    std::memset(buffer.data() + kBufferBytes, 1, kBufferBytes);  // untouched pages would all be the zero page
  }
  const Rate copied = rate(options.threads, options.seconds, [&](int thread, std::int64_t) {
    std::byte* buffer = buffers[static_cast<std::size_t>(thread)].data();
    std::memcpy(buffer, buffer + kBufferBytes, kBufferBytes);
    return kBufferBytes;
  });
  if (options.verify)
    for (const auto& buffer : buffers)
      require_equal(std::memcmp(buffer.data(), buffer.data() + kBufferBytes, kBufferBytes) == 0, "copies");
  return copied;
}

Rate sequential_bytes_per_s(const LimitOptions& options) {
  std::vector<ScratchArray<std::uint64_t>> buffers(static_cast<std::size_t>(options.threads));
  constexpr std::size_t kWords = kBufferBytes / sizeof(std::uint64_t);
  for (auto& buffer : buffers) {
    buffer.reserve(kWords);
    std::memset(buffer.data(), 1, kBufferBytes);  // untouched pages would all be the zero page
  }
  if (options.verify)
    require_equal(sum_of(buffers[0].data(), kWords) == kWords * 0x0101010101010101u, "sequential reads");
  return rate(options.threads, options.seconds, [&](int thread, std::int64_t) {
    consume(sum_of(buffers[static_cast<std::size_t>(thread)].data(), kWords));
    return kBufferBytes;
  });
}

}  // namespace hopfeed::bench
