// GivenOptions takes a dict of options, as Python code gives it, into hopfeed's options structs. Whatever
// does not fit is an error that names the option and what was given.
#pragma once
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <string>

#include "core/base/field_visitor.h"

namespace hopfeed::python {

class GivenOptions final : public FieldVisitor {
 public:
  explicit GivenOptions(nanobind::dict given);

  /// Sets the fields of a struct, and changes nothing where its keyword is not given, or None. What
  /// FieldVisitor::secret and FieldVisitor::special get is left to the caller.
  void flag(const Field& field, bool& value) override;
  void whole(const Field& field, int& value, WholeRange range) override;
  void whole(const Field& field, std::int64_t& value, WholeRange range) override;
  void optional_whole(const Field& field, std::optional<std::int64_t>& value) override;
  void unsigned_whole(const Field& field, std::uint64_t& value) override;
  void real(const Field& field, double& value) override;
  void text(const Field& field, std::string& value) override;
  void choice(const Field& field, const Choice& choice) override;
  void texts(const Field& field, std::vector<std::string>& value) override;
  void all_or_texts(const Field& field, std::optional<std::vector<std::string>>& value) override;
  void numbers(const Field& field, std::vector<int>& value) override;
  void fanouts(const Field& field, std::vector<std::int64_t>& value) override;
  void typed_fanouts(const Field& field, std::map<std::string, std::vector<std::int64_t>>& value) override;
  void bytes(const Field& field, std::size_t& value) override;
  void seconds(const Field& field, std::chrono::milliseconds& value) override;
  void cache_size(const Field& field, CacheSize& value) override;
  void optional_cache_size(const Field& field, std::optional<CacheSize>& value) override;

  /// Takes a path, a str or an os.PathLike; empty where none is given. Throws kInvalid.
  std::string path(const std::string& name);
  /// Whether it is there, and not None.
  bool has(const std::string& name) const;
  /// `into` becomes what is given under that name; nothing happens where nothing is, or None. `what`: "a
  /// whole number", for errors. Throws kInvalid.
  template <class T>
  void take(const std::string& name, T& into, const char* what) {
    const nanobind::object value = taken(name);
    if (!value.is_none() && !nanobind::try_cast<T>(value, into)) refuse(name, value, what);
  }
  /// After all that is known was taken: throws kInvalid naming what is left.
  void require_all_taken() const;
  /// What `others` has taken and this has not is given in vain: throws kInvalid naming it, and `why`.
  void refuse_those_of(const GivenOptions& others, const char* why);

 private:
  nanobind::object taken(const std::string& name);
  [[noreturn]] void refuse(const std::string& name, nanobind::handle value, const char* what) const;

  nanobind::dict given_;
  nanobind::set taken_;
};

/// An array has one or two dimensions, and lies C-contiguous in memory of the host.
template <class T, int kDimensions>
using GivenArray =
    nanobind::ndarray<const T, nanobind::ndim<kDimensions>, nanobind::c_contig, nanobind::device::cpu>;

}  // namespace hopfeed::python
