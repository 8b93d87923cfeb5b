// FileReader reads files, many reads at once, into a fixed number of buffers: what the file tier of features
// stands on (file_features.h). It is one contract with two mechanisms that pass the same tests:
//
//   io_uring   io_ring.h       registered buffers, one system call for many reads
//   threads    read_threads.h  pread, where io_uring is not allowed (containers often forbid it)
//
// open_file_reader.h chooses.
//
//   reader->start({.buffer = 0, .file = 0, .offset = 8192, .bytes = 4096});
//   reader->submit();
//   const auto done = reader->wait(1s);      // {.buffer = 0, .result = 4096}
//
// A reader belongs to one thread at a time. What a read brought is told as the kernel told it; who asked
// judges it.
#pragma once
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>

namespace hopfeed {

/// Offsets, lengths and addresses of reads past the page cache (O_DIRECT) are multiples of it.
inline constexpr std::size_t kReadAlign = 4096;

struct ReaderOptions {
  int depth = 64;                       // reads under way at once, and buffers: 1 to 1,024
  std::size_t buffer_bytes = 32 << 10;  // of each buffer, a multiple of kReadAlign
};

/// ReadBuffers is the memory that reads go to: `depth` buffers at multiples of kReadAlign, one behind the
/// other.
class ReadBuffers {
 public:
  /// Allocates the buffers. Throws kNoSpace.
  explicit ReadBuffers(const ReaderOptions& options);
  ~ReadBuffers();
  ReadBuffers(const ReadBuffers&) = delete;
  ReadBuffers& operator=(const ReadBuffers&) = delete;

  std::span<std::byte> all() const { return bytes_; }
  std::span<std::byte> at(int buffer) const {
    return bytes_.subspan(static_cast<std::size_t>(buffer) * options_.buffer_bytes, options_.buffer_bytes);
  }
  const ReaderOptions& options() const { return options_; }
  /// The memory is never given back from now on: the kernel may still write to it.
  void keep_for_ever() { kept_ = true; }

 private:
  const ReaderOptions options_;
  std::span<std::byte> bytes_;
  bool kept_ = false;
};

class FileReader {
 public:
  explicit FileReader(const ReaderOptions& options) : buffers_(std::make_shared<ReadBuffers>(options)) {}
  /// Waits a little for reads that are under way; memory of those that do not end is never given back.
  virtual ~FileReader() = default;
  FileReader(const FileReader&) = delete;
  FileReader& operator=(const FileReader&) = delete;

  const ReadBuffers& buffers() const { return *buffers_; }
  const ReaderOptions& options() const { return buffers_->options(); }

  struct Read {
    int buffer = 0;            // no other read to it is under way
    std::size_t into = 0;      // where in the buffer, in bytes
    int file = 0;              // number of the file among those that the reader was opened with
    std::uint64_t offset = 0;  // bytes from the file's begin
    std::uint32_t bytes = 0;   // to be read, within the buffer
  };
  /// Queues a read, which may begin only with submit() or wait().
  virtual void start(const Read& read) = 0;
  /// Begins all reads that are queued. Throws kIo.
  virtual void submit() = 0;

  struct Done {
    int buffer = 0;
    std::int64_t result = 0;  // bytes read, or a negative errno
  };
  /// Begins what is queued and returns one read that has ended; nothing where none did in time. Throws kIo.
  virtual std::optional<Done> wait(std::chrono::milliseconds time) = 0;
  /// Returns how many reads were started and not told as done.
  virtual int under_way() const = 0;
  /// Returns "io_uring" or "threads".
  virtual const char* name() const = 0;

 protected:
  std::shared_ptr<ReadBuffers> buffers_;
};

/// A reader that is given up waits so long for its reads.
inline constexpr std::chrono::milliseconds kLastReads{5'000};

/// Opens a reader of files; their descriptors must outlive it.
using OpenReader =
    std::function<std::unique_ptr<FileReader>(std::span<const int> files, const ReaderOptions& options)>;

}  // namespace hopfeed
