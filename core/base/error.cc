// See error.h.
#include "core/base/error.h"

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace hopfeed {

const char* to_string(ErrorCode code) {
  switch (code) {
    case ErrorCode::kInvalid:
      return "invalid";
    case ErrorCode::kNotFound:
      return "not found";
    case ErrorCode::kCorrupt:
      return "corrupt";
    case ErrorCode::kVersion:
      return "version";
    case ErrorCode::kIo:
      return "io";
    case ErrorCode::kNoSpace:
      return "no space";
    case ErrorCode::kTimeout:
      return "timeout";
    case ErrorCode::kPeerDied:
      return "peer died";
    case ErrorCode::kStateLost:
      return "state lost";
    case ErrorCode::kBusy:
      return "busy";
    case ErrorCode::kUnsupported:
      return "unsupported";
  }
  return "unknown";
}

namespace {

/// U+FDD0 to U+FDD2, which Unicode leaves to the inside of programs: no text that people type holds them, and
/// they are text to what cleans texts of others (plain_text.h). They have two bytes in common, and then one
/// each.
constexpr std::string_view kMarkHead = "\xEF\xB7";
constexpr char kField = '\x90', kFile = '\x91', kEnd = '\x92';
constexpr std::string_view kOfNames = "abcdefghijklmnopqrstuvwxyz0123456789_.";

std::string mark(char kind) { return std::string(kMarkHead) + kind; }

/// What to do about it, where the operating system's word alone does not tell.
const char* advice(int errno_value) {
  switch (errno_value) {
    case EMFILE:
      return "; raise the limit on open files (ulimit -n)";
    case EFBIG:
      return "; raise the limit on the size of files (ulimit -f)";
    case EAGAIN:
      return "; raise the limit on processes and threads (ulimit -u, or that of the container), or use fewer";
    default:
      return "";
  }
}

}  // namespace

std::string marked(std::string_view field) { return mark(kField) + std::string(field) + mark(kEnd); }

std::string marked_file(std::string_view field) { return mark(kFile) + std::string(field) + mark(kEnd); }

std::string spelled(std::string_view message, const FieldSpelling& field, const FieldSpelling& file) {
  const std::string end = mark(kEnd);
  std::string text;
  while (!message.empty()) {
    const std::size_t at = message.find(kMarkHead);
    text += message.substr(0, at);
    message.remove_prefix(std::min(message.size(), at));
    if (message.size() <= kMarkHead.size()) break;  // none, or one that was cut
    const char kind = message[kMarkHead.size()];
    const std::string_view behind = message.substr(kMarkHead.size() + 1);
    if (kind != kField && kind != kFile && kind != kEnd) {  // a letter of Arabic
      text += message.substr(0, kMarkHead.size());
      message.remove_prefix(kMarkHead.size());
      continue;
    }
    message = behind;
    const std::string_view name = behind.substr(0, behind.find_first_not_of(kOfNames));
    if (kind == kEnd || name.empty() || !behind.substr(name.size()).starts_with(end)) continue;
    if (kind == kField)
      text += field(name);
    else if (file)
      text += file(name);
    message.remove_prefix(name.size() + end.size());
  }
  if (text.ends_with(kMarkHead.front())) text.pop_back();  // that was cut after its first byte
  return text;
}

std::string unmarked(std::string_view message) {
  return spelled(message, [](std::string_view field) { return std::string(field); });
}

void throw_errno(const std::string& what, int errno_value) {
  ErrorCode code = ErrorCode::kIo;
  if (errno_value == ENOSPC || errno_value == EDQUOT || errno_value == ENOMEM) code = ErrorCode::kNoSpace;
  if (errno_value == ENOENT) code = ErrorCode::kNotFound;
  throw Error(code, what + ": " + std::strerror(errno_value) + advice(errno_value));
}

}  // namespace hopfeed
