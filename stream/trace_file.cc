// See trace_file.h.
#include "stream/trace_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <iterator>
#include <vector>

#include "core/base/json_text.h"
#include "core/base/owned_fd.h"

namespace hopfeed {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kBufferBytes = 1 << 16;
constexpr int kTrainerTrack = 0;
constexpr std::string_view kBegin = "[\n";  // of each part: an array that lacks its end

void append(AtomicFile& to, const TracePart& part) {
  const std::string what =
      fmt::format("--trace: cannot read what rank {} (process {}) wrote", part.rank, part.process);
  const OwnedFd from(
      ::open(fmt::format("/proc/{}/fd/{}", part.process, part.descriptor).c_str(), O_RDONLY | O_CLOEXEC),
      what.c_str());
  if (::lseek(from.get(), static_cast<off_t>(kBegin.size()), SEEK_SET) < 0) throw_errno(what, errno);
  std::vector<std::byte> buffer(kBufferBytes);
  for (ssize_t got; (got = ::read(from.get(), buffer.data(), buffer.size())) != 0;) {
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) throw_errno(what, errno);
    to.write(std::span(buffer).first(static_cast<std::size_t>(got)));
  }
}

std::string gather_arguments(const BatchRecord& record) {
  std::string arguments = fmt::format(",\"bytes\":{}", record.bytes);
  const TierCounts::Numbers numbers = record.tiers.numbers();
  for (std::size_t i = 0; i < numbers.size(); ++i)
    if (numbers[i] != 0)
      fmt::format_to(std::back_inserter(arguments), ",\"{}\":{}", TierCounts::kNames[i], numbers[i]);
  return arguments;
}

}  // namespace

TraceFile::TraceFile(TraceOptions options) : options_(std::move(options)), file_(options_.path, "--trace: ") {
  buffer_ = kBegin;
  add_name("process_name", kTrainerTrack, fmt::format("rank {} (process {})", options_.rank, getpid()));
  add_name("thread_name", kTrainerTrack, "trainer");
}

std::function<void(const BatchRecord&)> TraceFile::observer(const std::string& loader) {
  return [this, loader](const BatchRecord& record) { add(loader, record); };
}

void TraceFile::add(const std::string& loader, const BatchRecord& record) {
  const std::lock_guard lock(mutex_);
  if (closed_) return;
  const BatchTimes& t = record.times;
  const int worker = track_of(loader, record);
  const auto microseconds = [](double seconds) { return 1e6 * seconds; };
  add_span(record, {.name = "sample",
                    .track = worker,
                    .begin = t.claimed,
                    .end = t.sampled,
                    .arguments = fmt::format(",\"queued_us\":{:.3f}", microseconds(t.claimed - t.planned))});
  add_span(record, {.name = "gather",
                    .track = worker,
                    .begin = t.writing,
                    .end = t.gathered,
                    .arguments = gather_arguments(record)});
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

int TraceFile::track_of(const std::string& loader, const BatchRecord& record) {
  const auto [found, added] =
      tracks_.try_emplace({loader, record.worker}, static_cast<int>(tracks_.size()) + 1);
  if (added)
    add_name("thread_name", found->second,
             record.maker.empty() ? fmt::format("{} worker {}", loader, record.worker)
                                  : fmt::format("{} {}", loader, record.maker));
  return found->second;
}

void TraceFile::add_name(const char* kind, int track, const std::string& name) {
  fmt::format_to(std::back_inserter(buffer_),
                 "{{\"name\":\"{}\",\"ph\":\"M\",\"pid\":{},\"tid\":{},\"args\":{{\"name\":{}}}}},\n", kind,
                 options_.rank, track, json_text(name));
}

/// Batches are dropped in destructors, so an error waits for close().
void TraceFile::flush() {
  try {
    if (!error_) file_.write(buffer_);
  } catch (const Error& error) {
    error_ = error;
  }
  buffer_.clear();
}

TracePart TraceFile::close() {
  const std::lock_guard lock(mutex_);
  flush();
  closed_ = true;
  if (error_) throw *error_;
  return {.rank = options_.rank, .process = getpid(), .descriptor = file_.fd()};
}

void TraceFile::join(std::span<const TracePart> parts) {
  for (const TracePart& part : parts) {
    if (part.rank != options_.rank) append(file_, part);
  }
  // Behind the comma of the last event: an array has to end with a value.
  file_.write(fmt::format(
      "{{\"name\":\"process_labels\",\"ph\":\"M\",\"pid\":{},\"args\":{{\"labels\":\"hopfeed\"}}}}\n]\n",
      options_.rank));
  file_.commit();
}

fs::path trace_of_machine(const fs::path& path, std::int64_t first_rank) {
  if (first_rank == 0) return path;
  fs::path other = path;
  other.replace_extension(fmt::format(".rank{}{}", first_rank, path.extension().string()));
  return other;
}

}  // namespace hopfeed
