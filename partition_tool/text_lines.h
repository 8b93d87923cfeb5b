// TextLines gives the lines of a text file, gzipped or plain, one after the other and with their numbers, so
// that a complaint can name both.
#pragma once
#include <zlib.h>

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace hopfeed {

class TextLines {
 public:
  /// Throws kNotFound or kIo naming the file.
  explicit TextLines(const std::filesystem::path& path);
  ~TextLines();
  TextLines(const TextLines&) = delete;
  TextLines& operator=(const TextLines&) = delete;

  /// Reads the next line without its line break; valid until the next call. False at the end. Throws kCorrupt
  /// for a file that is cut off or whose checksum is wrong.
  bool next(std::string_view& line);
  std::int64_t number() const { return number_; }  // of the last line, from 1
  const std::filesystem::path& path() const { return path_; }
  /// Throws kInvalid: "FILE, line N: what".
  [[noreturn]] void refuse(const std::string& what) const;

 private:
  bool fill();
  std::filesystem::path path_;
  gzFile file_ = nullptr;
  std::vector<char> buffer_;
  std::size_t begin_ = 0, end_ = 0;  // what is unread in the buffer
  std::int64_t number_ = 0;
};

/// Reads the whole field as a number ("12", "-0.5e3", "nan"); anything else, spaces included, is refused.
std::int64_t parse_integer(const TextLines& lines, std::string_view field);
float parse_float(const TextLines& lines, std::string_view field);

/// Calls `field(text)` for each comma-separated field of the line, in order.
template <class Field>
void for_each_field(std::string_view line, const Field& field) {
  for (;;) {
    const std::size_t comma = line.find(',');
    field(line.substr(0, comma));
    if (comma == std::string_view::npos) return;
    line.remove_prefix(comma + 1);
  }
}

}  // namespace hopfeed
