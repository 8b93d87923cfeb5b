// See rsync.h. Exit codes are those of rsync's manual page; 255 is ssh's, 127 a shell's.
#include "partition_tool/program/rsync.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <string_view>

#include "core/base/error.h"

namespace hopfeed {
namespace {

constexpr std::uint64_t kSlowDisk = 20'000'000;  // bytes a second that any disk reads
constexpr std::int64_t kMaxConnectSeconds = 30;
constexpr std::int64_t kOwnPatience = 60;  // beyond what rsync and ssh wait themselves
constexpr std::size_t kMaxSaid = 240;      // of a complaint that is handed on
constexpr int kFilesFailed = 11;           // rsync's exit code: an error of files, on either side
constexpr int kTriesToHear = 4;
constexpr const char* kNoReason = "it gave no reason";

bool has(std::string_view text, std::string_view part) { return text.find(part) != std::string_view::npos; }

/// What was said in one line, without what rsync says of itself.
std::string said(const std::string& err) {
  std::string best;
  for (std::size_t at = 0; at < err.size();) {
    const std::size_t end = std::min(err.find('\n', at), err.size());
    std::string line = err.substr(at, end - at);
    at = end + 1;
    std::erase(line, '\r');
    if (line.empty() || line.starts_with("rsync error:") || line.starts_with("Warning: Permanently added"))
      continue;
    for (const char* prefix : {"rsync: ", "[sender] ", "[receiver] ", "[Receiver] ", "[generator] "})
      if (line.starts_with(prefix)) line.erase(0, std::string_view(prefix).size());
    // The first cause; that the connection ended is what comes of it.
    if (best.empty() || has(best, "connection unexpectedly closed")) best = line;
    if (!has(best, "connection unexpectedly closed")) break;
  }
  if (best.size() > kMaxSaid) best = best.substr(0, kMaxSaid) + "...";
  return best.empty() ? kNoReason : best;
}

/// "rsync --itemize-changes" of a file that is sent: '<' or '>', 'f', nine more, a space, the path.
bool is_sent_file(const std::string& line) {
  return line.size() > 12 && (line[0] == '<' || line[0] == '>') && line[1] == 'f' && line[11] == ' ';
}

/// "Permission denied (publickey)" is ssh's; "Permission denied (13)" rsync's, of a file.
bool is_login_refused(std::string_view text) {
  constexpr std::string_view kDenied = "Permission denied (";
  const std::size_t at = text.find(kDenied);
  return has(text, "Host key verification failed") || has(text, "Too many authentication failures") ||
         (at != std::string_view::npos && at + kDenied.size() < text.size() &&
          std::isalpha(static_cast<unsigned char>(text[at + kDenied.size()])) != 0);
}

bool is_cut_off(const ChildResult& result) {
  return result.exit_code == 10 || result.exit_code == 12 || result.exit_code == 20 ||
         result.exit_code >= 128 || has(result.err, "Broken pipe") || has(result.err, "Connection reset") ||
         has(result.err, "connection unexpectedly closed");
}

[[noreturn]] void fail(ErrorCode code, const std::string& message) { throw Error(code, message); }

}  // namespace

std::string Rsync::remote() const {
  const std::string folder = target_.path + (target_.path.ends_with('/') ? "" : "/");
  return target_.host.empty() ? folder : target_.host + ":" + folder;
}

ChildResult Rsync::run(const Call& call, const std::function<void(const std::string&)>& on_line) const {
  const auto slow = [](std::uint64_t bytes) { return static_cast<std::int64_t>(bytes / kSlowDisk); };
  const std::int64_t timeout = options_.timeout + slow(call.quiet_bytes),
                     connect = std::min(options_.timeout, kMaxConnectSeconds),
                     silence = timeout + connect + kOwnPatience + slow(call.mute_bytes);
  bool heard = false;
  ChildOptions child{.arguments = {"rsync", fmt::format("--timeout={}", timeout), "--no-human-readable"},
                     .silence = std::chrono::seconds(silence),
                     .on_line = [&](const std::string& line) {
                       heard = true;
                       if (on_line) on_line(line);
                     }};
  if (!target_.host.empty()) {
    // ssh takes the first value of an option that it is given, so those of --ssh stay.
    child.arguments.push_back(
        "--rsh=" + options_.ssh +
        fmt::format(" -o BatchMode=yes -o ConnectTimeout={} -o ServerAliveInterval=15 -o "
                    "ServerAliveCountMax=4",
                    connect));
    child.arguments.push_back("--protect-args");  // no shell there reads the path either
  }
  child.arguments.insert(child.arguments.end(), call.arguments.begin(), call.arguments.end());
  ChildResult result = run_child(child);
  // Where the other side fails, rsync ends its own ssh, at times before that has passed on why.
  for (int tries = 1; tries < kTriesToHear && result.exit_code == kFilesFailed && !heard; ++tries)
    if (said(result.err) == kNoReason) result = run_child(child);
  const bool missing = call.may_be_missing && result.exit_code == 23 && has(result.err, "change_dir") &&
                       has(result.err, "No such file or directory");
  if ((result.exit_code != 0 || result.silent) && !missing)
    complain(result, result.silent ? silence : timeout);
  return result;
}

void Rsync::complain(const ChildResult& result, std::int64_t waited) const {
  const std::string text = said(result.err), &place = target_.place;
  const std::string host = target_.host.empty() ? "this machine" : target_.host;
  const char* again = "run it again, and it goes on where it stopped";
  if (has(result.err, "No space left on device") || has(result.err, "Disk quota exceeded"))
    fail(ErrorCode::kNoSpace, fmt::format("{} is full: {}; make room there, then {}", place, text, again));
  if (result.exit_code == 127 || (has(result.err, "rsync") && has(result.err, "command not found")))
    fail(ErrorCode::kUnsupported,
         fmt::format("there is no rsync on {} ({}); install it there (Debian: apt install "
                     "rsync)",
                     host, text));
  if (has(result.err, "Failed to exec") || has(result.err, "rsh command not found"))
    fail(ErrorCode::kUnsupported,
         fmt::format("cannot start '{}' ({}); install it, or name another with --ssh", options_.ssh, text));
  if (is_login_refused(result.err))
    fail(ErrorCode::kIo, fmt::format("{} lets nobody in: {}; make `{} {}` work without a question (keys, "
                                     "known_hosts), nobody answers one here",
                                     host, text, options_.ssh, target_.host));
  if (result.silent || result.exit_code == 30 || result.exit_code == 35)
    fail(ErrorCode::kTimeout, fmt::format("{} said nothing for {} s (--timeout); {}", place, waited, again));
  if (result.exit_code == 255 || has(result.err, "ssh: "))
    fail(ErrorCode::kIo, fmt::format("{} does not answer: {}; see that `{} {}` works, then {}", host, text,
                                     options_.ssh, target_.host, again));
  if (has(result.err, "mkdir") && has(result.err, "No such file or directory"))
    fail(ErrorCode::kNotFound,
         fmt::format("{}: the folder above does not exist there; make it (mkdir -p) or mend "
                     "the path",
                     place));
  if (has(result.err, "Not a directory") || has(result.err, "is not a directory"))
    fail(ErrorCode::kInvalid, fmt::format("{} is no folder there: {}", place, text));
  if (has(result.err, "Permission denied"))
    fail(ErrorCode::kIo, fmt::format("{} may not be written or read: {}", place, text));
  if (is_cut_off(result))
    fail(ErrorCode::kIo, fmt::format("{}: the copy ended early (rsync's exit code {}): {}; {}", place,
                                     result.exit_code, text, again));
  if (result.exit_code == 24)
    fail(ErrorCode::kIo, fmt::format("files were removed here while they were sent to {}: {}", place, text));
  fail(ErrorCode::kIo, fmt::format("{}: rsync failed with exit code {}: {}", place, result.exit_code, text));
}

std::vector<std::string> Rsync::list() const {
  std::vector<std::string> names;
  run({.arguments = {"--dirs", "--list-only", "--", remote()}, .may_be_missing = true},
      [&names](const std::string& line) {
        // "-rw-r--r--   1234 2026/11/25 12:00:00 name"
        std::size_t at = 0;
        for (int field = 0; field < 4 && at != std::string::npos; ++field)
          at = line.find_first_not_of(' ', line.find(' ', at));
        if (at == std::string::npos || at == 0) return;
        const std::string name = line.substr(at);
        if (name != ".") names.push_back(name);
      });
  return names;
}

void Rsync::fetch(const std::vector<std::string>& names, const std::string& into) const {
  Call call{.arguments = {"--dirs"}};
  for (const std::string& name : names) call.arguments.push_back("--include=/" + name);
  call.arguments.insert(call.arguments.end(), {"--exclude=*", "--", remote(), into + "/"});
  run(call, {});
}

std::vector<std::string> Rsync::different(const std::string& folder, const std::string& list_file,
                                          bool by_bytes, std::uint64_t total, std::uint64_t largest) const {
  std::vector<std::string> names;
  run({.arguments = {by_bytes ? "--checksum" : "--times", "--dry-run", "--out-format=%i %n",
                     "--files-from=" + list_file, "--", folder + "/", remote()},
       .quiet_bytes = by_bytes ? largest : 0,
       .mute_bytes = by_bytes ? 2 * total : 0,
       .may_be_missing = false},
      [&names](const std::string& line) {
        if (is_sent_file(line)) names.push_back(line.substr(12));
      });
  return names;
}

void Rsync::send(const std::string& folder, const std::string& list_file, bool by_bytes,
                 std::uint64_t largest, const std::function<void(std::uint64_t done)>& progress) const {
  // In place: what a receiver that was killed has of a file is used, and no temporary file stays behind.
  Call call{.arguments = {"--times", "--partial", "--inplace", "--info=progress2"}, .quiet_bytes = largest};
  if (by_bytes) call.arguments.emplace_back("--checksum");
  if (options_.bandwidth > 0)  // in KiB
    call.arguments.push_back(
        fmt::format("--bwlimit={}", std::max<std::uint64_t>(1, options_.bandwidth >> 10)));
  call.arguments.insert(call.arguments.end(), {"--files-from=" + list_file, "--", folder + "/", remote()});
  run(call, [&progress](const std::string& line) {
    const std::size_t at = line.find_first_not_of(' ');
    std::uint64_t done = 0;
    if (at != std::string::npos &&
        std::from_chars(line.data() + at, line.data() + line.size(), done).ec == std::errc())
      progress(done);
  });
}

void Rsync::replace(const std::string& stage, const std::vector<std::string>& names) const {
  Call call{.arguments = {"--recursive", "--times", "--omit-dir-times", "--checksum", "--delete-after"}};
  for (const std::string& name : names) call.arguments.push_back("--include=/" + name);
  call.arguments.insert(call.arguments.end(), {"--exclude=*", "--", stage + "/", remote()});
  run(call, {});
}

}  // namespace hopfeed
