// FileFeatures reads features that need not fit into memory. A batch's rows are sorted by their place; the
// pages that they touch are read once each, neighbours in one read, with many reads under way at once
// (file_reader.h); rows are copied out as pages come, in whatever order that is. prepare() begins the first
// reads, gather() waits for them and begins the others. Memory is the reader's buffers (2 MiB) and 16 bytes
// for each row of the batch, whatever the size of the file. GIDS and DiskGNN read features so.
//
// With a cache in front (dynamic_cache.h), prepare() announces the batch, and begins those reads only whose
// rows are not there and which no batch before it will bring. gather() takes the rows that are there, copies
// them while the others are read, and gives the cache what came, once the batch is whole.
#pragma once
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "cache/dynamic_cache.h"
#include "cache/feature_tiers.h"
#include "cache/open_file_reader.h"
#include "cache/row_file.h"
#include "core/maker/announce_order.h"
#include "core/maker/feature_source.h"

namespace hopfeed {

/// RowFiles is what is read of an attribute: row i of partition p begins at its file's data_offset() + i *
/// stride_bytes.
struct RowFiles {
  std::vector<RowFile> files;                       // [P]
  std::span<const std::int64_t> partition_offsets;  // [P + 1], as AttrView has them; outlives the source
  std::int64_t row_bytes = 0, stride_bytes = 0;
};

/// Opens the files of an attribute. Throws kNotFound naming the attributes that exist, and what RowFile
/// throws.
RowFiles open_row_files(const Dataset& dataset, const FeatureName& feature,
                        RowFile::Access wanted = RowFile::Access::kDirect);

struct FileFeaturesOptions {
  ReaderOptions reader = {};  // buffers are made larger where a row needs it
  /// A read that takes longer is an error, so that nothing ever waits for ever.
  std::chrono::milliseconds read_deadline{30'000};
  OpenReader open_reader = open_file_reader;
};

class FileFeatures final : public FeatureSource {
 public:
  /// Reads the rows with `cache` of this attribute, or null, in front. Throws kNoSpace.
  FileFeatures(RowFiles rows, const FileFeaturesOptions& options,
               std::unique_ptr<CachedRows> cache = nullptr);
  ~FileFeatures() override;

  /// Throws kTimeout where reads of a batch that was given up do not end.
  std::size_t prepare(std::span<const std::int64_t> ids) override;
  /// Writes the next rows. Rows that a later call takes are kept in memory when their page comes, so the last
  /// call should be for few. Throws kIo (the disk), kCorrupt (the file was truncated) or kTimeout, naming the
  /// file.
  void gather(std::size_t rows, std::byte* out) override;
  /// Gives the batch up. Reads under way end by themselves: the next prepare() waits for them.
  void drop() override;

  /// Returns counts in which a batch's rows are from its first gather() on.
  TierCounts counts() const override { return counts_; }
  /// Means says how it reads: "io_uring" or "threads", and whether past the page cache.
  struct Means {
    std::string reader;
    bool direct = false;  // all of its files
  };
  Means means() const;

 private:
  /// Wanted is a row that the batch wants. `at` has the file's number above and the offset in it below, so
  /// that sorting brings rows of a page together.
  struct Wanted {
    std::uint64_t at;
    std::uint64_t row;  // of the block
  };
  enum class From : char { kFile, kBegun, kCache };  // kBegun: of the file, by prepare()
  /// UnderWay is a read under way, to the rows wanted_[first, last).
  struct UnderWay {
    std::size_t first = 0, last = 0;
    int file = 0;
    std::uint64_t offset = 0;  // of the buffer's begin in the file
    std::size_t needed = 0;    // bytes from there to the last row's end
    std::size_t whole = 0;     // bytes asked for in all
    std::size_t have = 0;      // of them, read so far, whole pages
    int tries = 0;
  };

  void want(std::size_t row);
  void drop_reads();
  void gather_all();
  std::span<const CachedRows::Hit> take_hits();
  void copy_hits(std::span<const CachedRows::Hit> hits);
  std::byte* place_of(std::size_t row);
  void start_reads();
  void start_read(int buffer);
  void ask(int buffer);
  void take_one();
  bool came_whole(int buffer, std::int64_t result);
  void copy_rows(const UnderWay& read, const std::byte* from);
  [[noreturn]] void cut_short(const UnderWay& read, std::size_t have) const;

  const RowFiles rows_;
  const std::unique_ptr<CachedRows> cache_;
  const std::chrono::milliseconds read_deadline_;
  std::unique_ptr<FileReader> reader_;
  std::vector<UnderWay> under_way_;    // [buffers]
  std::vector<int> idle_;              // buffers
  std::vector<Wanted> wanted_;         // of the batch, those that are read, sorted
  std::span<const std::int64_t> ids_;  // of the batch
  std::vector<From> from_;             // [rows of the batch] with a cache
  bool came_ = false;                  // the batch is whole
  std::size_t next_ = 0;               // of wanted_: the first that no read is for
  std::size_t arrived_ = 0;            // rows of the batch whose page came
  std::size_t given_ = 0;              // rows that earlier calls of gather() wrote
  std::size_t until_ = 0;              // this call writes rows [given_, until_) of the block
  std::byte* out_ = nullptr;           // row given_
  std::vector<std::byte> later_;  // rows from later_from_ on, of a batch that is gathered in several calls
  std::size_t later_from_ = 0;
  TierCounts counts_;
};

/// Returns a factory of sources: mapped arrays, or for rows of at least kLeastFileRowBytes their files, with
/// the cache in front of them where one is given, which must outlive the sources. With kMemory a cache is in
/// front of rows of other machines (core/maker/partitioned_features.h), and `turn` as there. The bytes of a
/// batch are the same.
FeatureSourceFactory feature_sources(FeaturesFrom from, DynamicCache* cache = nullptr,
                                     AnnounceTurn* turn = nullptr);

}  // namespace hopfeed
