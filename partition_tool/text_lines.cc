// See text_lines.h. zlib reads plain files as they are.
#include "partition_tool/text_lines.h"

#include <fmt/format.h>

#include <cerrno>
#include <charconv>
#include <cstring>

#include "core/base/error.h"

namespace hopfeed {
namespace {

constexpr std::size_t kBufferBytes = 1 << 20;

template <class T>
T parse_number(const TextLines& lines, std::string_view field) {
  T value{};
  const auto [end, error] = std::from_chars(field.data(), field.data() + field.size(), value);
  if (error != std::errc{} || end != field.data() + field.size())
    lines.refuse(fmt::format("'{}' is no number that fits", field.substr(0, 40)));
  return value;
}

gzFile open_text(const std::filesystem::path& path) {
  std::error_code unreadable;  // gzopen says why
  if (path.extension() == ".gz" &&
      std::filesystem::file_size(path, unreadable) == 0)  // zlib: a text of no lines
    throw Error(ErrorCode::kCorrupt, path.string() + " is empty, which no gzip file is; fetch it again");
  const gzFile file = gzopen(path.c_str(), "rbe");
  if (file == nullptr) throw_errno("cannot open " + path.string(), errno != 0 ? errno : ENOMEM);
  gzbuffer(file, 1 << 17);
  return file;
}

}  // namespace

TextLines::TextLines(const std::filesystem::path& path)
    : path_(path), file_(open_text(path)), buffer_(kBufferBytes) {}

TextLines::~TextLines() {
  if (file_ != nullptr) gzclose_r(file_);
}

bool TextLines::fill() {
  if (file_ == nullptr) return false;
  if (begin_ > 0) {
    std::memmove(buffer_.data(), buffer_.data() + begin_, end_ - begin_);
    end_ -= begin_;
    begin_ = 0;
  }
  if (end_ == buffer_.size()) buffer_.resize(2 * buffer_.size());  // a line longer than the buffer
  const int got = gzread(file_, buffer_.data() + end_,
                         static_cast<unsigned>(std::min<std::size_t>(buffer_.size() - end_, 1 << 30)));
  if (got > 0) {
    end_ += static_cast<std::size_t>(got);
    return true;
  }
  const int closed = gzclose_r(file_);  // tells a file that was cut off
  file_ = nullptr;
  if (got < 0 || closed != Z_OK)
    throw Error(ErrorCode::kCorrupt, path_.string() + " is damaged or cut off (gzip)");
  return false;
}

bool TextLines::next(std::string_view& line) {
  std::size_t searched = 0;
  for (;;) {
    const std::size_t unread = end_ - begin_;
    if (const void* found = std::memchr(buffer_.data() + begin_ + searched, '\n', unread - searched)) {
      const auto length =
          static_cast<std::size_t>(static_cast<const char*>(found) - (buffer_.data() + begin_));
      line = {buffer_.data() + begin_, length};
      begin_ += length + 1;
      break;
    }
    searched = unread;
    if (fill()) continue;
    if (unread == 0) return false;
    line = {buffer_.data() + begin_, unread};  // the last line, without a line break
    begin_ = end_;
    break;
  }
  if (!line.empty() && line.back() == '\r') line.remove_suffix(1);
  ++number_;
  return true;
}

void TextLines::refuse(const std::string& what) const {
  throw Error(ErrorCode::kInvalid, fmt::format("{}, line {}: {}", path_.string(), number_, what));
}

std::int64_t parse_integer(const TextLines& lines, std::string_view field) {
  return parse_number<std::int64_t>(lines, field);
}
float parse_float(const TextLines& lines, std::string_view field) {
  return parse_number<float>(lines, field);
}

}  // namespace hopfeed
