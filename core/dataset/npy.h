// Reads NumPy's .npy files (format versions 1 to 3), little-endian and C-contiguous, by memory map, and
// writes them as a stream. The source is the NEP 1 description of the format. Structured types are known in
// one form, the row record of graph_view.h.
#pragma once
#include <xxhash.h>

#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "core/base/atomic_file.h"
#include "core/base/element_type.h"
#include "core/base/error.h"
#include "core/base/mapped_file.h"
#include "core/dataset/graph_view.h"

namespace hopfeed {

struct NpyHeader {
  std::string descr;                // "<i8", or "record" for RowRecord
  std::vector<std::int64_t> shape;  // every dimension >= 0
  std::size_t item_bytes = 0;
  std::size_t data_offset = 0;  // where the elements begin in the file
  bool fortran_order = false;   // of NpyForms::kGiven alone
  std::int64_t count() const;   // elements in all
};

/// Arrays of RowRecord have this `descr`.
inline constexpr const char* kRowRecordDescr = "record";

/// NpyForms says what a file may be like: as hopfeed writes it, or as users give it (given_array.h): in
/// Fortran order, big-endian, of uint16 or uint64 too.
enum class NpyForms { kOwn, kGiven };

/// Checks magic, version, header, order and that the file is exactly as long as the shape says; throws
/// kCorrupt, kVersion or kUnsupported naming the file and the field.
NpyHeader parse_npy_header(std::span<const std::byte> file, const std::filesystem::path& path,
                           NpyForms forms = NpyForms::kOwn);

/// Returns the header of an array in memory, which `name` stands for in errors; data_offset is 0. Throws as
/// parse_npy_header does.
NpyHeader given_npy_header(const std::string& descr, const std::vector<std::int64_t>& shape,
                           std::uint64_t bytes, const std::filesystem::path& name);

/// An NpyArray is a mapped .npy file. `as<T>()` checks the element type once and gives the elements.
class NpyArray {
 public:
  NpyArray() = default;
  explicit NpyArray(const std::filesystem::path& path, HugePages huge_pages = HugePages::kAuto)
      : file_(path, huge_pages), header_(parse_npy_header(file_.bytes(), path)) {}

  const NpyHeader& header() const { return header_; }
  const std::filesystem::path& path() const { return file_.path(); }
  std::span<const std::byte> bytes() const {
    return file_.bytes().subspan(file_.bytes().empty() ? 0 : header_.data_offset);
  }

  /// Throws kCorrupt naming the file where the stored element type is another.
  template <class T>
  std::span<const T> as() const {
    require_descr(npy_descr(element_type_of<T>));
    return {reinterpret_cast<const T*>(bytes().data()), static_cast<std::size_t>(header_.count())};
  }
  void require_descr(const std::string& descr) const;

 private:
  MappedFile file_;
  NpyHeader header_;
};

template <>
inline std::span<const RowRecord> NpyArray::as<RowRecord>() const {
  require_descr(kRowRecordDescr);
  return {reinterpret_cast<const RowRecord*>(bytes().data()), static_cast<std::size_t>(header_.count())};
}

/// Returns the elements; of an array without a path none.
inline std::span<const std::int64_t> numbers_or_none(const NpyArray& array) {
  return array.path().empty() ? std::span<const std::int64_t>() : array.as<std::int64_t>();
}

/// Returns everything before the elements of a version 1 file, a multiple of 64 bytes.
std::string npy_head(const std::string& descr, const std::vector<std::int64_t>& shape);

/// An NpyWriter writes one array front to back. `finish` flushes, fsyncs (Sync::kYes) and checks that exactly
/// the promised elements came; without it the file is incomplete and the destructor only closes it.
class NpyWriter {
 public:
  /// `descr` is as in NpyHeader. Throws kIo or kNoSpace naming the file.
  NpyWriter(const std::filesystem::path& path, const std::string& descr,
            const std::vector<std::int64_t>& shape, Sync sync = Sync::kYes);
  ~NpyWriter();
  NpyWriter(NpyWriter&& other) noexcept;
  NpyWriter& operator=(NpyWriter&&) = delete;

  void write_bytes(std::span<const std::byte> bytes);
  template <class T>
  void write(std::span<const T> items) {
    write_bytes(std::as_bytes(items));
  }
  template <class T>
  void write_one(const T& item) {
    write_bytes(std::as_bytes(std::span<const T>(&item, 1)));
  }
  struct Result {
    std::uint64_t bytes;  // of the whole file
    std::uint64_t xxh3;   // XXH3-64 of the whole file
  };
  Result finish();

 private:
  [[noreturn]] void fail(int errno_value) const;
  std::filesystem::path path_;
  Sync sync_;
  std::FILE* file_ = nullptr;
  XXH3_state_t* hash_ = nullptr;
  std::uint64_t expected_ = 0, written_ = 0;
};

/// Writes an array that is in memory already, in one call.
template <class T>
NpyWriter::Result write_npy(const std::filesystem::path& path, std::span<const T> items,
                            const std::vector<std::int64_t>& shape) {
  NpyWriter writer(path, npy_descr(element_type_of<T>), shape);
  writer.write(items);
  return writer.finish();
}

}  // namespace hopfeed
