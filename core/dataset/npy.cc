// See npy.h. A header is a Python dictionary literal; only the three keys that the format defines are
// accepted, so a small strict scanner suffices and nothing is ever evaluated.
#include "core/dataset/npy.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string_view>
#include <utility>

#include "core/base/disk_room.h"
#include "core/base/failpoint.h"
#include "core/base/limits.h"

namespace hopfeed {
namespace {

constexpr std::string_view kMagic = "\x93NUMPY";
constexpr std::string_view kRecordLiteral = "[('offset', '<i8'), ('original_id', '<i8')]";
constexpr ElementType kKnownTypes[] = {ElementType::kUint8,    ElementType::kInt8,    ElementType::kInt16,
                                       ElementType::kInt32,    ElementType::kInt64,   ElementType::kFloat16,
                                       ElementType::kBfloat16, ElementType::kFloat32, ElementType::kFloat64,
                                       ElementType::kBool,     ElementType::kUint32};

[[noreturn]] void corrupt(const std::filesystem::path& path, const std::string& what) {
  throw Error(ErrorCode::kCorrupt, path.string() + " is no valid .npy file: " + what);
}

std::size_t descr_bytes(std::string_view descr) {
  if (descr == kRowRecordDescr) return sizeof(RowRecord);
  for (ElementType type : kKnownTypes) {
    if (descr == npy_descr(type)) return element_bytes(type);
  }
  return 0;
}

std::size_t given_descr_bytes(std::string descr) {
  if (descr.starts_with('>')) descr[0] = '<';
  return descr == "<u8" ? sizeof(std::uint64_t) : descr_bytes(descr);
}

// Reads the header's dictionary from left to right.
class Scanner {
 public:
  Scanner(std::string_view text, const std::filesystem::path& path) : text_(text), path_(path) {}

  void skip_spaces() {
    while (!text_.empty() && (text_[0] == ' ' || text_[0] == '\n')) text_.remove_prefix(1);
  }
  bool accept(char c) {
    skip_spaces();
    if (text_.empty() || text_[0] != c) return false;
    text_.remove_prefix(1);
    return true;
  }
  void expect(char c) {
    if (!accept(c)) corrupt(path_, std::string("its header lacks '") + c + "'");
  }
  std::string quoted() {
    expect('\'');
    const std::size_t end = text_.find('\'');
    if (end == std::string_view::npos) corrupt(path_, "its header has an unclosed string");
    std::string value(text_.substr(0, end));
    text_.remove_prefix(end + 1);
    return value;
  }
  bool boolean() {
    skip_spaces();
    for (bool value : {true, false}) {
      const std::string_view word = value ? "True" : "False";
      if (text_.substr(0, word.size()) == word) {
        text_.remove_prefix(word.size());
        return value;
      }
    }
    corrupt(path_, "fortran_order is neither True nor False");
  }
  std::vector<std::int64_t> shape() {
    std::vector<std::int64_t> dims;
    expect('(');
    while (!accept(')')) {
      dims.push_back(number());
      if (dims.size() > 8) corrupt(path_, "it has more than 8 dimensions");
      if (!accept(',')) {
        expect(')');
        break;
      }
    }
    return dims;
  }
  // A type string, or the one structured type that hopfeed writes.
  std::string descr() {
    skip_spaces();
    if (text_.empty() || text_[0] != '[') return quoted();
    const std::size_t end = text_.find(']');
    if (end == std::string_view::npos) corrupt(path_, "its type list is not closed");
    const std::string_view list = text_.substr(0, end + 1);
    if (list != kRecordLiteral) {
      throw Error(ErrorCode::kUnsupported, path_.string() + ": structured element type " + std::string(list) +
                                               " is not known; store plain numbers");
    }
    text_.remove_prefix(end + 1);
    return kRowRecordDescr;
  }
  bool at_end() {
    skip_spaces();
    return text_.empty();
  }

 private:
  std::int64_t number() {
    skip_spaces();
    std::int64_t value = 0;
    std::size_t digits = 0;
    for (; digits < text_.size() && text_[digits] >= '0' && text_[digits] <= '9'; ++digits) {
      if (value > kMaxEdges) corrupt(path_, "a dimension is too large");
      value = value * 10 + (text_[digits] - '0');
    }
    if (digits == 0 || (digits > 1 && text_[0] == '0'))
      corrupt(path_, "its shape has no number where one belongs");
    text_.remove_prefix(digits);
    return value;
  }

  std::string_view text_;
  const std::filesystem::path& path_;
};

std::string header_dictionary(const std::string& descr, const std::vector<std::int64_t>& shape) {
  std::string dims;
  for (std::int64_t d : shape) dims += std::to_string(d) + ", ";
  if (shape.size() > 1) dims.resize(dims.size() - 2);
  if (shape.size() == 1) dims.resize(dims.size() - 1);
  const std::string type = descr == kRowRecordDescr ? std::string(kRecordLiteral) : "'" + descr + "'";
  std::string text = "{'descr': " + type + ", 'fortran_order': False, 'shape': (" + dims + "), }";
  const std::size_t unpadded = 10 + text.size() + 1;
  text.append((64 - unpadded % 64) % 64, ' ');
  text += '\n';
  return text;
}

/// Sets the size of an element, and requires that there are as many bytes as type and shape ask for.
void check_elements(NpyHeader& header, std::uint64_t have, const std::filesystem::path& path,
                    NpyForms forms) {
  const bool given = forms == NpyForms::kGiven;
  header.item_bytes = given ? given_descr_bytes(header.descr) : descr_bytes(header.descr);
  if (header.item_bytes == 0) {
    throw Error(ErrorCode::kUnsupported,
                path.string() + " holds elements of type '" + header.descr +
                    (given ? "'; known are int8 to int64, uint8 to uint64, float16 to float64 and bool"
                           : "'; known are int8 to int64, uint8, uint32, float16 to float64 and bool, "
                             "little-endian"));
  }
  std::uint64_t bytes = header.item_bytes;
  for (std::int64_t d : header.shape) {
    if (__builtin_mul_overflow(bytes, static_cast<std::uint64_t>(d), &bytes))
      corrupt(path, "its shape overflows");
  }
  if (bytes != have) {
    corrupt(path, "shape and type ask for " + std::to_string(bytes) + " bytes of data, the file has " +
                      std::to_string(have));
  }
}

}  // namespace

std::int64_t NpyHeader::count() const {
  std::int64_t n = 1;
  for (std::int64_t d : shape) n *= d;  // parse_npy_header has checked the product
  return n;
}

NpyHeader parse_npy_header(std::span<const std::byte> file, const std::filesystem::path& path,
                           NpyForms forms) {
  const bool given = forms == NpyForms::kGiven;
  const std::string_view text(reinterpret_cast<const char*>(file.data()), file.size());
  if (text.size() < 12 || text.substr(0, 6) != kMagic) corrupt(path, "it does not begin with \\x93NUMPY");
  const int version = static_cast<unsigned char>(text[6]);
  if (version < 1 || version > 3) {
    throw Error(ErrorCode::kVersion,
                path.string() + " has .npy version " + std::to_string(version) + "; 1 to 3 are known");
  }
  std::uint32_t length = 0;
  const std::size_t length_bytes = version == 1 ? 2 : 4;
  std::memcpy(&length, text.data() + 8, length_bytes);
  const std::size_t begin = 8 + length_bytes;
  if (length > kMaxNpyHeaderBytes || begin + length > text.size())
    corrupt(path, "its header is longer than the file");

  NpyHeader header;
  header.data_offset = begin + length;
  // NumPy itself aligns to 16 or 64; typed access to the mapping needs at least the widest element.
  if (header.data_offset % 16 != 0)
    throw Error(ErrorCode::kUnsupported,
                path.string() + " holds unaligned data; save it again with numpy.save");
  Scanner scan(text.substr(begin, length), path);
  bool seen_descr = false, seen_order = false, seen_shape = false;
  scan.expect('{');
  while (!scan.accept('}')) {
    const std::string key = scan.quoted();
    scan.expect(':');
    if (key == "descr" && !std::exchange(seen_descr, true)) {
      header.descr = scan.descr();
    } else if (key == "fortran_order" && !std::exchange(seen_order, true)) {
      header.fortran_order = scan.boolean();
      if (header.fortran_order && !given)
        throw Error(ErrorCode::kUnsupported,
                    path.string() + " is in Fortran order; save numpy.ascontiguousarray(...) instead");
    } else if (key == "shape" && !std::exchange(seen_shape, true)) {
      header.shape = scan.shape();
    } else {
      corrupt(path, "its header has an unexpected key '" + key + "'");
    }
    if (!scan.accept(',')) {
      scan.expect('}');
      break;
    }
  }
  if (!seen_descr || !seen_order || !seen_shape || !scan.at_end()) corrupt(path, "its header is incomplete");
  check_elements(header, text.size() - header.data_offset, path, forms);
  return header;
}

NpyHeader given_npy_header(const std::string& descr, const std::vector<std::int64_t>& shape,
                           std::uint64_t bytes, const std::filesystem::path& name) {
  NpyHeader header;
  header.descr = descr;
  header.shape = shape;
  check_elements(header, bytes, name, NpyForms::kGiven);
  return header;
}

void NpyArray::require_descr(const std::string& descr) const {
  if (header_.descr != descr) {
    throw Error(ErrorCode::kCorrupt, path().string() + " holds elements of type '" + header_.descr +
                                         "', expected '" + descr + "'");
  }
}

std::string npy_head(const std::string& descr, const std::vector<std::int64_t>& shape) {
  const std::string dictionary = header_dictionary(descr, shape);
  const std::uint16_t length = static_cast<std::uint16_t>(dictionary.size());
  std::string head(kMagic);
  head += {'\x01', '\0', static_cast<char>(length), static_cast<char>(length >> 8)};
  return head + dictionary;
}

NpyWriter::NpyWriter(const std::filesystem::path& path, const std::string& descr,
                     const std::vector<std::int64_t>& shape, Sync sync)
    : path_(path), sync_(sync) {
  const std::size_t item_bytes = descr_bytes(descr);
  if (item_bytes == 0)
    throw Error(ErrorCode::kInvalid, "no .npy element type '" + descr + "' for " + path.string());
  file_ = std::fopen(path.c_str(), "wbxe");  // x: never over an existing file
  if (!file_) throw_errno("cannot create " + path.string(), errno);
  std::setvbuf(file_, nullptr, _IOFBF, 1 << 18);
  hash_ = XXH3_createState();
  XXH3_64bits_reset(hash_);
  expected_ = item_bytes;
  for (std::int64_t d : shape) expected_ *= static_cast<std::uint64_t>(d);
  const std::string head = npy_head(descr, shape);
  expected_ += head.size();
  write_bytes(std::as_bytes(std::span(head)));
}

NpyWriter::NpyWriter(NpyWriter&& other) noexcept
    : path_(std::move(other.path_)),
      sync_(other.sync_),
      file_(std::exchange(other.file_, nullptr)),
      hash_(std::exchange(other.hash_, nullptr)),
      expected_(other.expected_),
      written_(other.written_) {}

NpyWriter::~NpyWriter() {
  if (file_) std::fclose(file_);
  if (hash_) XXH3_freeState(hash_);
}

void NpyWriter::fail(int errno_value) const { throw_write_errno(path_, errno_value, expected_); }

void NpyWriter::write_bytes(std::span<const std::byte> bytes) {
  if (!bytes.empty() && std::fwrite(bytes.data(), 1, bytes.size(), file_) != bytes.size()) fail(errno);
  XXH3_64bits_update(hash_, bytes.data(), bytes.size());
  written_ += bytes.size();
}

NpyWriter::Result NpyWriter::finish() {
  if (written_ != expected_) {
    throw Error(ErrorCode::kInvalid, path_.string() + ": " + std::to_string(written_) +
                                         " bytes were written where the shape asks for " +
                                         std::to_string(expected_));
  }
  if (std::fflush(file_) != 0 || (sync_ == Sync::kYes && ::fsync(::fileno(file_)) != 0)) fail(errno);
  if (FAILPOINT("dataset.write")) fail(ENOSPC);
  // Written pages lie in the page cache in small pieces; whoever maps the file reads it anew, on 2 MiB pages.
  if (sync_ == Sync::kYes) ::posix_fadvise(::fileno(file_), 0, 0, POSIX_FADV_DONTNEED);
  std::FILE* file = std::exchange(file_, nullptr);
  if (std::fclose(file) != 0) fail(errno);
  return {.bytes = written_, .xxh3 = XXH3_64bits_digest(hash_)};
}

}  // namespace hopfeed
