// GivenOptions takes a dict of options, as Python code gives it, into hopfeed's options structs. Whatever
// does not fit is an error that names the option and what was given.
#pragma once
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <string>

#include "core/base/error.h"

namespace hopfeed::python {

class GivenOptions {
 public:
  explicit GivenOptions(nanobind::dict given);

  /// Returns whether the option is there, and not None.
  bool has(const char* name) const;
  /// Sets `into` to what is given under that name; nothing happens where nothing is, or None. `what` is for
  /// errors: "a whole number". Throws kInvalid.
  template <class T>
  void take(const char* name, T& into, const char* what) {
    const nanobind::object value = taken(name);
    if (!value.is_none() && !nanobind::try_cast<T>(value, into)) refuse(name, value, what);
  }
  /// Takes text that `read` understands, which throws kInvalid.
  template <class T, class Read>
  void take_name(const char* name, T& into, Read read) {
    std::string text;
    take(name, text, "a string");
    if (has(name)) into = read(text);
  }
  /// Throws kInvalid naming what is left after all that is known was taken.
  void require_all_taken() const;

 private:
  nanobind::object taken(const char* name);
  [[noreturn]] void refuse(const char* name, nanobind::handle value, const char* what) const;

  nanobind::dict given_;
  nanobind::set taken_;
};

/// An array has one or two dimensions, and lies C-contiguous in memory of the host.
template <class T, int kDimensions>
using GivenArray =
    nanobind::ndarray<const T, nanobind::ndim<kDimensions>, nanobind::c_contig, nanobind::device::cpu>;

}  // namespace hopfeed::python
