// A TraceFile is a Chrome trace of the batches that loaders handed out (JSON array format, complete events;
// Perfetto and chrome://tracing open it). A process per rank; in it a track for the trainer's thread (`wait`:
// next() waits for a batch, `use`: until the next one is asked for) and one per worker, of servers by their
// names (`sample`, `gather`). Each batch has one event of each of the four names, with epoch, first and count
// as arguments.
//
// Events go to a file without a name while the program runs, so memory stays small and a killed run leaves
// nothing; one rank of the machine then appends the parts of the others to its own, which becomes the trace:
//
//   TraceFile trace({.path = "trace.json"});
//   Loader loader({..., .observer = trace.observer("train")});
//   ...                      // all batches dropped
//   part = trace.close();    // every rank; they tell each other their parts,
//   trace.join(parts);       // one rank joins, and all wait for it
#pragma once
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "core/base/atomic_file.h"
#include "core/base/error.h"
#include "stream/loader_options.h"

namespace hopfeed {

struct TraceOptions {
  std::filesystem::path path;
  std::int64_t rank = 0;  // of this process
};

/// A TracePart says where the events of a rank lie, for another process of the same user on the same machine.
struct TracePart {
  std::int64_t rank = 0, process = 0, descriptor = 0;
};

class TraceFile {
 public:
  /// Throws kInvalid, kNotFound or kIo naming the path where no file can be made there.
  explicit TraceFile(TraceOptions options);
  TraceFile(const TraceFile&) = delete;
  TraceFile& operator=(const TraceFile&) = delete;

  /// Returns a LoaderOptions::observer; `loader` names its workers' tracks. The trace must outlive the
  /// batches.
  std::function<void(const BatchRecord&)> observer(const std::string& loader);
  /// Closes the part: no more events of this rank come, and it is there for as long as this object. Throws
  /// kIo or kNoSpace where an event could not be written.
  TracePart close();
  /// Makes `path` of this rank's closed part and those of the others; its own may be among them. Throws
  /// kNotFound where one is gone.
  void join(std::span<const TracePart> parts = {});

 private:
  struct Span {
    const char* name;
    int track;
    double begin, end;
    std::string arguments;  // further ones, each with a comma before it
  };
  void add(const std::string& loader, const BatchRecord& record);
  void add_span(const BatchRecord& record, const Span& span);
  int track_of(const std::string& loader, const BatchRecord& record);
  void add_name(const char* kind, int track, const std::string& name);
  void flush();

  const TraceOptions options_;
  std::mutex mutex_;  // guards all below: any thread may drop a batch
  AtomicFile file_;
  bool closed_ = false;
  std::string buffer_;
  std::map<std::pair<std::string, std::uint32_t>, int> tracks_;
  std::optional<Error> error_;  // of the first write that failed
};

/// Returns where the ranks of one machine write: `path` itself for the machine of rank 0, else NAME.rankN.EXT
/// with the machine's first rank.
std::filesystem::path trace_of_machine(const std::filesystem::path& path, std::int64_t first_rank);

}  // namespace hopfeed
