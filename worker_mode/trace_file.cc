// See trace_file.h.
#include "worker_mode/trace_file.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <iterator>
#include <vector>

#include "core/error.h"
#include "core/json_text.h"

namespace hopfeed {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kBufferBytes = 1 << 16;
constexpr int kTrainerTrack = 0;

std::FILE* create(const fs::path& path) {
  std::FILE* file = std::fopen(path.c_str(), "wbe");
  if (file == nullptr) throw_errno("--trace: cannot write " + path.string(), errno);
  return file;
}

/// Appends the whole of a part. Throws naming the one of the two files that failed.
void append(std::FILE* to, const fs::path& target, const fs::path& part) {
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> from(std::fopen(part.c_str(), "rbe"), &std::fclose);
  if (!from)
    throw_errno("--trace: cannot read " + part.string() + ", which a rank of this machine wrote", errno);
  std::vector<char> buffer(kBufferBytes);
  for (std::size_t got; (got = std::fread(buffer.data(), 1, buffer.size(), from.get())) > 0;) {
    if (std::fwrite(buffer.data(), 1, got, to) != got)
      throw_errno("--trace: cannot write " + target.string(), errno);
  }
  if (std::ferror(from.get())) throw_errno("--trace: cannot read " + part.string(), EIO);
}

}  // namespace

TraceFile::TraceFile(TraceOptions options) : options_(std::move(options)), file_(nullptr, &std::fclose) {
  std::error_code ignored;
  if (fs::exists(options_.path, ignored) && !fs::is_regular_file(options_.path, ignored))
    throw Error(ErrorCode::kInvalid,
                "--trace: " + options_.path.string() + " is no file that can be replaced");
  file_.reset(create(part(options_.rank)));
  add_name("process_name", kTrainerTrack, fmt::format("rank {} (process {})", options_.rank, getpid()));
  add_name("thread_name", kTrainerTrack, "trainer");
}

TraceFile::~TraceFile() {
  std::error_code ignored;
  fs::remove(part(options_.rank), ignored);
}

fs::path TraceFile::part(std::int64_t rank) const {
  return fmt::format("{}.rank{}.tmp", options_.path.string(), rank);
}

std::function<void(const BatchRecord&)> TraceFile::observer(const std::string& loader) {
  return [this, loader](const BatchRecord& record) { add(loader, record); };
}

void TraceFile::add(const std::string& loader, const BatchRecord& record) {
  const std::lock_guard lock(mutex_);
  if (!file_) return;
  const BatchTimes& t = record.times;
  const int worker = track_of(loader, record.worker);
  const auto microseconds = [](double seconds) { return 1e6 * seconds; };
  add_span(record, {.name = "sample",
                    .track = worker,
                    .begin = t.claimed,
                    .end = t.sampled,
                    .arguments = fmt::format(",\"queued_us\":{:.3f}", microseconds(t.claimed - t.planned))});
  add_span(record, {.name = "gather",
                    .track = worker,
                    .begin = t.sampled,
                    .end = t.gathered,
                    .arguments = fmt::format(",\"bytes\":{}", record.bytes)});
  add_span(record,
           {.name = "wait", .track = kTrainerTrack, .begin = record.asked, .end = t.taken, .arguments = ""});
  add_span(record, {.name = "use",
                    .track = kTrainerTrack,
                    .begin = t.taken,
                    .end = record.left,
                    .arguments = fmt::format(",\"ready_us\":{:.3f}", microseconds(t.taken - t.published))});
  if (buffer_.size() >= kBufferBytes) flush();
}

void TraceFile::add_span(const BatchRecord& record, const Span& span) {
  fmt::format_to(std::back_inserter(buffer_),
                 "{{\"name\":\"{}\",\"ph\":\"X\",\"ts\":{:.3f},\"dur\":{:.3f},\"pid\":{},\"tid\":{},"
                 "\"args\":{{\"epoch\":{},\"first\":{},\"count\":{}{}}}}},\n",
                 span.name, 1e6 * span.begin, 1e6 * (span.end - span.begin), options_.rank, span.track,
                 record.epoch, record.first, record.count, span.arguments);
}

int TraceFile::track_of(const std::string& loader, std::uint32_t worker) {
  const auto [found, added] = tracks_.try_emplace({loader, worker}, static_cast<int>(tracks_.size()) + 1);
  if (added) add_name("thread_name", found->second, fmt::format("{} worker {}", loader, worker));
  return found->second;
}

void TraceFile::add_name(const char* kind, int track, const std::string& name) {
  fmt::format_to(std::back_inserter(buffer_),
                 "{{\"name\":\"{}\",\"ph\":\"M\",\"pid\":{},\"tid\":{},\"args\":{{\"name\":{}}}}},\n", kind,
                 options_.rank, track, json_text(name));
}

void TraceFile::flush() {
  if (error_ == 0 && std::fwrite(buffer_.data(), 1, buffer_.size(), file_.get()) != buffer_.size())
    error_ = errno;
  buffer_.clear();
}

void TraceFile::close() {
  const std::lock_guard lock(mutex_);
  if (!file_) return;
  flush();
  if (std::fclose(file_.release()) != 0 && error_ == 0) error_ = errno;
  if (error_ != 0) throw_errno("--trace: cannot write " + part(options_.rank).string(), error_);
}

void TraceFile::join() {
  const fs::path temporary = options_.path.string() + ".tmp";
  try {
    std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(create(temporary), &std::fclose);
    std::fputs("[\n", file.get());
    for (std::int64_t rank = options_.first_rank; rank < options_.first_rank + options_.num_ranks; ++rank)
      append(file.get(), temporary, part(rank));
    // Behind the comma of the last event: an array has to end with a value.
    fmt::print(
        file.get(),
        "{{\"name\":\"process_labels\",\"ph\":\"M\",\"pid\":{},\"args\":{{\"labels\":\"hopfeed\"}}}}\n]\n",
        options_.first_rank);
    const bool failed = std::ferror(file.get()) != 0;
    if (std::fclose(file.release()) != 0 || failed)
      throw_errno("--trace: cannot write " + temporary.string(), failed ? EIO : errno);
    if (std::rename(temporary.c_str(), options_.path.c_str()) != 0)
      throw_errno("--trace: cannot write " + options_.path.string(), errno);
  } catch (...) {
    std::error_code ignored;
    fs::remove(temporary, ignored);
    throw;
  }
}

fs::path trace_of_machine(const fs::path& path, std::int64_t first_rank) {
  if (first_rank == 0) return path;
  fs::path other = path;
  other.replace_extension(fmt::format(".rank{}{}", first_rank, path.extension().string()));
  return other;
}

}  // namespace hopfeed
