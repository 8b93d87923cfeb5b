// A GivenArray is an array that a user gives: a .npy file in whichever form numpy.save left it (C or Fortran
// order, either byte order), or one that lies in this process's memory; also with the unsigned types that
// datasets do not have (uint16 becomes int32, uint64 int64 where it fits). It is converted while it is read,
// and no copy is made. The files of datasets are NpyArray (npy.h), strict and mapped.
#pragma once
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/base/element_type.h"
#include "core/base/mapped_file.h"
#include "core/dataset/npy.h"

namespace hopfeed {

/// A HeldArray is an array in memory, in C order. `bytes` stay as they are for as long as they are read.
struct HeldArray {
  std::string descr;  // as NumPy writes it: "<i8"
  std::vector<std::int64_t> shape;
  std::span<const std::byte> bytes;
};

/// An ArraySource says where an array lies.
struct ArraySource {
  ArraySource() = default;
  ArraySource(std::filesystem::path file) : path(std::move(file)) {}  // NOLINT: a file is a source
  /// `name` is for messages.
  ArraySource(std::string name, HeldArray array) : path(std::move(name)), held(std::move(array)) {}

  bool empty() const { return path.empty(); }
  std::string name() const { return path.string(); }

  std::filesystem::path path;     // of the file; of an array in memory its name
  std::optional<HeldArray> held;  // none: it is a file
};

class GivenArray {
 public:
  /// Throws what parse_npy_header throws, and kUnsupported for elements that are no numbers.
  explicit GivenArray(const ArraySource& source);

  /// Returns the path of the file, or the name that the array in memory was given.
  const std::filesystem::path& path() const { return path_; }
  const std::vector<std::int64_t>& shape() const { return header_.shape; }
  std::int64_t count() const { return header_.count(); }
  /// Returns the shape as messages have it: "[2, 5]".
  std::string shape_text() const;
  /// Returns NumPy's type string as the file has it (">u8"), for messages.
  const std::string& descr() const { return header_.descr; }
  /// Returns the type of the elements as they are read.
  ElementType type() const { return type_; }
  bool has_integers() const;

  /// Reads the elements from `first` on in C order, as many as fit into `out`. Throws kInvalid naming file
  /// and entry where an uint64 does not fit. May be called by several threads.
  void read(std::int64_t first, std::span<std::byte> out) const;
  template <class T>
  void read(std::int64_t first, std::span<T> out) const {
    require(element_type_of<T>);
    read(first, std::as_writable_bytes(out));
  }
  /// Reads out.size() integers of any type from `first` on, each as int64. Throws as read() does.
  void read_integers(std::int64_t first, std::span<std::int64_t> out) const;

  /// Returns whether Fortran order makes a difference.
  bool in_fortran_order() const { return fortran_; }
  /// Returns whether elements are read as they lie in the file, whatever their order.
  bool as_stored() const { return !swapped_ && widening_ == Widening::kNone; }
  /// Reads them in the order of the file.
  template <class T>
  std::span<const T> stored() const {
    require(element_type_of<T>);
    return {reinterpret_cast<const T*>(bytes().data()), static_cast<std::size_t>(count())};
  }

 private:
  enum class Widening { kNone, kUint16, kUint64 };
  std::span<const std::byte> bytes() const { return bytes_; }
  void require(ElementType type) const;
  /// Converts element `at` of the file, which is entry `entry` in C order.
  void convert(std::int64_t at, std::int64_t entry, std::byte* out) const;
  std::vector<std::int64_t> place_of(std::int64_t entry) const;

  std::filesystem::path path_;
  MappedFile file_;  // none where the array lies in memory
  NpyHeader header_;
  std::span<const std::byte> bytes_;  // of the elements
  ElementType type_ = ElementType::kUint8;
  Widening widening_ = Widening::kNone;
  bool swapped_ = false, fortran_ = false;
};

}  // namespace hopfeed
