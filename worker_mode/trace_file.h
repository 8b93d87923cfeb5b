// A Chrome trace of the batches that loaders handed out (JSON array format, complete events; Perfetto and
// chrome://tracing open it). A process per rank; in it a track for the trainer's thread (`wait`: next() waits
// for a batch, `use`: until the next one is asked for) and one per worker (`sample`, `gather`). Each batch has
// one event of each of the four names, with epoch, first and count as arguments.
//
// Events go to a part file beside the trace while the program runs, so memory stays small; the ranks of one
// machine then join their parts into one file, which is there whole or not at all:
//
//   TraceFile trace({.path = "trace.json"});
//   Loader loader({..., .observer = trace.observer("train")});
//   ...                      // all batches dropped
//   trace.close();           // every rank; then all wait for each other,
//   trace.join();            // the first rank of the machine joins, and all wait for it
#pragma once
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>

#include "worker_mode/loader.h"

namespace hopfeed {

struct TraceOptions {
  std::filesystem::path path;
  std::int64_t rank = 0;        // of this process
  std::int64_t first_rank = 0;  // the ranks first_rank to first_rank + num_ranks - 1 share the file
  std::int64_t num_ranks = 1;
};

class TraceFile {
 public:
  /// Opens this rank's part, PATH.rankN.tmp. Throws kInvalid or kIo naming the path.
  explicit TraceFile(TraceOptions options);
  /// Removes the part.
  ~TraceFile();
  TraceFile(const TraceFile&) = delete;
  TraceFile& operator=(const TraceFile&) = delete;

  /// For LoaderOptions::observer; `loader` names its workers' tracks. The trace must outlive the batches.
  std::function<void(const BatchRecord&)> observer(const std::string& loader);
  /// No more events of this rank. Throws kIo or kNoSpace where any could not be written.
  void close();
  /// Joins the closed parts of all ranks into `path`. Throws kNotFound where one is missing.
  void join();

 private:
  struct Span {
    const char* name;
    int track;
    double begin, end;
    std::string arguments;  // further ones, each with a comma before it
  };
  void add(const std::string& loader, const BatchRecord& record);
  void add_span(const BatchRecord& record, const Span& span);
  int track_of(const std::string& loader, std::uint32_t worker);
  void add_name(const char* kind, int track, const std::string& name);
  void flush();
  std::filesystem::path part(std::int64_t rank) const;

  const TraceOptions options_;
  std::mutex mutex_;  // guards all below: any thread may drop a batch
  std::unique_ptr<std::FILE, int (*)(std::FILE*)> file_;
  std::string buffer_;
  std::map<std::pair<std::string, std::uint32_t>, int> tracks_;
  int error_ = 0;  // errno of the first write that failed
};

/// Where the ranks of one machine write: `path` itself for the machine of rank 0, else NAME.rankN.EXT with the
/// machine's first rank.
std::filesystem::path trace_of_machine(const std::filesystem::path& path, std::int64_t first_rank);

}  // namespace hopfeed
