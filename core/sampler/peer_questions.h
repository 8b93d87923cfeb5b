// Machines that have partitions ask each other these questions, as bytes. A question is answered from its
// owner's partition alone, so owners never wait for each other. docs/protocol.md has every byte.
//
//   job        options of batches, by their hash; told with the first draw, and to an owner that lacks them
//   draw       rows of one hop: what they give, of each edge type
//   rows       whole rows of one edge type
//   edges      which of these pairs are edges
//   features   rows of an attribute of nodes or edges
//   degrees    how many edges of a type end at these nodes
//   new ids    dataset ids of original ids of the partition's range; these three where ids are sharded
//   old ids    original ids of rows
//   split      entries of the partition's range of a split of nodes or edges
//
// Rows are numbers within their partition, of 4 bytes. Numbers are little-endian; arrays begin at multiples
// of 8.
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/byte_cursor.h"
#include "core/batch/batch_layout.h"
#include "core/dataset/partition_peers.h"
#include "core/draws/excluded_edges.h"

namespace hopfeed {

enum class PeerAsk : std::uint32_t {
  kJob = 1,
  kDraw = 2,
  kRows = 3,
  kEdges = 4,
  kFeatures = 5,
  kDegrees = 6,
  kNewIds = 7,
  kOldIds = 8,
  kSplit = 9
};
/// PeerSays is the first 8 bytes of every answer.
enum class PeerSays : std::uint64_t { kHere = 0, kUnknownJob = 1 };

/// A PeerQuestionHead begins any question.
struct PeerQuestionHead {
  PeerAsk ask{};
  std::uint32_t partition = 0;
  std::uint64_t job = 0;  // BatchOptions::hash(); of kJob and kDraw
};

// ---- arrays in bytes

/// A NarrowArray has numbers of 1, 2, 4 or 8 bytes each, without a sign but for those of 8.
class NarrowArray {
 public:
  NarrowArray() = default;
  NarrowArray(const std::byte* first, std::size_t count, int width)
      : first_(first), count_(count), width_(width) {}
  std::size_t size() const { return count_; }
  int width() const { return width_; }
  std::int64_t operator[](std::size_t i) const {
    switch (width_) {
      case 1:
        return static_cast<std::int64_t>(first_[i]);
      case 2:
        return read<std::uint16_t>(i);
      case 4:
        return read<std::uint32_t>(i);
      default:
        return read<std::int64_t>(i);
    }
  }
  /// Returns the numbers as an array, whose width the caller has looked at.
  template <class Number>
  const Number* as() const {
    return reinterpret_cast<const Number*>(first_);
  }

 private:
  template <class Number>
  std::int64_t read(std::size_t i) const {
    return static_cast<std::int64_t>(reinterpret_cast<const Number*>(first_)[i]);
  }
  const std::byte* first_ = nullptr;
  std::size_t count_ = 0;
  int width_ = 8;
};

/// Returns the fewest bytes that hold numbers up to `most`.
inline int narrow_width(std::uint64_t most) {
  return most <= 0xFF ? 1 : most <= 0xFFFF ? 2 : most <= 0xFFFFFFFF ? 4 : 8;
}

/// A PeerWriter appends to bytes; arrays begin at multiples of 8.
class PeerWriter {
 public:
  explicit PeerWriter(PeerBytes& out) : out_(out) {}
  /// Reserves so many bytes more, and a checksum behind them (wire).
  void reserve(std::size_t more) {
    constexpr std::size_t kTail = 16;
    if (out_.capacity() < out_.size() + more + kTail)
      out_.reserve(std::max(out_.size() + more + kTail, out_.size() * 2));
  }
  template <class Record>
  void record(const Record& record) {
    static_assert(sizeof(Record) % 8 == 0 && std::is_trivially_copyable_v<Record>);
    const auto* at = reinterpret_cast<const std::byte*>(&record);
    out_.insert(out_.end(), at, at + sizeof record);
  }
  template <class Number>
  void array(std::span<const Number> numbers) {
    const auto bytes = std::as_bytes(numbers);
    out_.insert(out_.end(), bytes.begin(), bytes.end());
    pad();
  }
  /// Appends the numbers in as many bytes each; they fit.
  template <class Number>
  void narrow(std::span<const Number> numbers, int width) {
    const std::size_t at = out_.size();
    out_.resize(at + numbers.size() * static_cast<std::size_t>(width));
    std::byte* to = out_.data() + at;
    const auto put = [&]<class Narrow>(Narrow) {
      auto* out = reinterpret_cast<Narrow*>(to);
      for (std::size_t i = 0; i < numbers.size(); ++i) out[i] = static_cast<Narrow>(numbers[i]);
    };
    if (width == 1)
      put(std::uint8_t{});
    else if (width == 2)
      put(std::uint16_t{});
    else if (width == 4)
      put(std::uint32_t{});
    else
      put(std::int64_t{});
    pad();
  }
  /// Appends so many bytes, which the caller fills before the next call.
  std::byte* room(std::size_t bytes) {
    const std::size_t at = out_.size();
    out_.resize(at + bytes);
    pad();
    return out_.data() + at;
  }

 private:
  void pad() { out_.insert(out_.end(), (8 - out_.size() % 8) % 8, std::byte{0}); }
  PeerBytes& out_;
};

/// A PeerReader reads what came from another machine: every length is checked before it is used. Throws
/// kCorrupt.
class PeerReader {
 public:
  /// `bytes` begin at a multiple of 8.
  PeerReader(std::span<const std::byte> bytes, const char* what) : left_(bytes), what_(what) {}
  template <class Record>
  const Record& record() {
    static_assert(sizeof(Record) % 8 == 0 && std::is_trivially_copyable_v<Record>);
    return *reinterpret_cast<const Record*>(take(1, sizeof(Record)).data());
  }
  template <class Number>
  std::span<const Number> array(std::uint64_t count) {
    return {reinterpret_cast<const Number*>(take(count, sizeof(Number)).data()), count};
  }
  NarrowArray narrow(std::uint64_t count, int width);
  std::span<const std::byte> bytes(std::uint64_t count) { return take(count, 1); }
  std::span<const std::byte> rest() const { return left_.left(); }
  /// Throws unless all was read.
  void end() const;
  [[noreturn]] void fail(const std::string& why) const;

 private:
  /// Takes bytes; what follows begins at the next multiple of 8.
  std::span<const std::byte> take(std::uint64_t count, std::size_t each);
  ByteCursor left_;
  const char* what_;
};

// ---- draw

struct PeerDrawHead {
  std::uint64_t seed = 0;
  std::int64_t epoch = 0, first = 0, count = 0;  // BatchKey
  std::uint32_t hop = 0, sections = 0;
  std::uint32_t first_tree = 0, times = 0;  // seed times of trees [first_tree, first_tree + times)
};
struct PeerDrawSection {
  std::uint32_t edge_type = 0, rows = 0;
  std::uint32_t trees = 0, excluded = 0;  // 0 or one a row; pairs {row, source} as int64
};
/// An answer is PeerSays, then of each section this and its arrays: counts, sources, edge ids, positions in
/// the partition.
struct PeerDrawnSection {
  std::uint64_t edges = 0;
  std::uint8_t count_bytes = 1, source_bytes = 4;
  std::uint8_t edge_id_bytes = 0, position_bytes = 0;  // 0: none
  std::uint32_t rows = 0;
};

/// PeerDrawRows is one section of a question as it is read or written.
struct PeerDrawRows {
  std::uint32_t edge_type = 0;
  std::span<const std::uint32_t> rows, trees;
  std::span<const std::int64_t> excluded;
};
struct PeerDrawQuestion {
  BatchKey key;
  std::uint32_t hop = 0, first_tree = 0;
  std::span<const std::int64_t> times;
  std::vector<PeerDrawRows> sections;
};
PeerBytes write_draw(const PeerQuestionHead& head, const PeerDrawQuestion& question);
/// Reads what follows the head.
PeerDrawQuestion read_draw(PeerReader& in);

struct PeerDrawn {
  NarrowArray counts, sources, edge_ids, positions;
};
/// Reads a section, and checks that the counts sum up to the edges.
PeerDrawn read_drawn(PeerReader& in, std::size_t rows);

// ---- the others

/// Rows u32 follow the head. The answer is PeerSays, PeerRowsAnswer, then degrees int64, neighbours, edge
/// ids, and where each row begins in the partition (int64); of kDegrees it is PeerSays, degrees int64.
struct PeerRowsHead {
  std::uint32_t edge_type = 0, rows = 0;
};
struct PeerRowsAnswer {
  std::uint64_t edges = 0;
  std::uint8_t source_bytes = 4, edge_id_bytes = 0;
  std::uint16_t unused = 0;
  std::uint32_t rows = 0;
};
struct PeerEdgesHead {  // rows u32, then sources int64 follow; answer: PeerSays, a byte a pair
  std::uint32_t edge_type = 0, pairs = 0;
};
struct PeerFeaturesHead {  // rows u32, or positions of edges of 8 bytes, follow; answer: PeerSays, rows
                           // without padding
  std::uint32_t is_edge = 0, type = 0;
  std::uint32_t attr = 0, rows = 0;  // number of the attribute in meta.json
};

/// Places within the range (u32) follow, or rows; the answer is PeerSays, then an id of each, as wide as the
/// dataset has them (NodeTypeMeta::new_id_type).
struct PeerIdsHead {
  std::uint32_t node_type = 0, ids = 0;
};
/// Places within the range follow: u32, or int64 where the range has more than 2^32 entries. The answer is
/// PeerSays, then original ids and dataset ids of nodes; of links original ids of sources, of destinations,
/// their dataset ids, then labels and times (int64) where the split has them.
struct PeerSplitHead {
  std::uint32_t is_edge = 0, type = 0;
  std::uint32_t split = 0, places = 0;  // number of the split in meta.json
};
constexpr bool has_wide_places(std::int64_t range) { return range > INT64_C(0xFFFFFFFF); }

/// Writes a question of any kind but draw and job.
template <class Head, class... Numbers>
PeerBytes write_question(const PeerQuestionHead& head, const Head& of_kind,
                         std::span<const Numbers>... arrays) {
  PeerBytes bytes;
  PeerWriter out(bytes);
  out.reserve(sizeof head + sizeof of_kind + ((arrays.size_bytes() + 8) + ...));
  out.record(head);
  out.record(of_kind);
  (out.array(arrays), ...);
  return bytes;
}
/// Writes a kJob: the options as JSON. The draw that needs them may follow in the same bytes; then its answer
/// is the answer, so that whichever of a partition's servers is asked knows them.
PeerBytes write_job(std::uint32_t partition, std::uint64_t job, std::string_view options);
std::string read_job(PeerReader& in);

/// A PeerReply is the answer without its first word. Throws kCorrupt where that is neither of PeerSays.
struct PeerReply {
  PeerSays says{};
  PeerReader in;
};
PeerReply open_answer(std::span<const std::byte> answer, const char* what);

}  // namespace hopfeed
