// See error.h.
#include "core/base/error.h"

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
    case ErrorCode::kUnsupported:
      return "unsupported";
  }
  return "unknown";
}

namespace {

/// Control characters, which no name of a field and no text that people type holds.
constexpr char kMark = '\x02', kMarkEnd = '\x03';

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

std::string marked(std::string_view field) { return kMark + std::string(field) + kMarkEnd; }

std::string spelled(std::string_view message,
                    const std::function<std::string(std::string_view field)>& spelling) {
  std::string text;
  while (!message.empty()) {
    const std::size_t begin = message.find(kMark), end = message.find(kMarkEnd, begin);
    text += message.substr(0, begin);
    if (end == std::string_view::npos) {
      if (begin != std::string_view::npos) text += message.substr(begin + 1);  // cut: of another process, say
      break;
    }
    text += spelling(message.substr(begin + 1, end - begin - 1));
    message.remove_prefix(end + 1);
  }
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
