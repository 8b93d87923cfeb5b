// One object of a JSON text, read field by field, and checked: what comes over a wire or from a file is never
// told in the words of the JSON library, and no number is cut to fit.
#pragma once
#include <cstdint>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "core/base/error.h"

namespace hopfeed {

/// Every complaint names the field and the object, shows the value, and says what it may be; it is thrown
/// with `code`.
class JsonFields {
 public:
  /// `what` names the object: "the batch spec". `object` outlives this. Throws where it is none.
  JsonFields(const nlohmann::json& object, std::string what, ErrorCode code = ErrorCode::kInvalid);

  /// Throws naming one that is not of these.
  void only(const std::set<std::string>& keys) const;
  bool has(const char* key) const { return object_.contains(key); }
  /// Throws where it is missing. So do all below, and where the value is of another kind or out of its range.
  const nlohmann::json& at(const char* key) const;
  std::int64_t whole(const char* key, std::int64_t least, std::int64_t most) const;
  std::vector<std::int64_t> wholes(const char* key, std::int64_t least, std::int64_t most) const;
  /// From 0 to 2^64 - 1.
  std::uint64_t unsigned_whole(const char* key) const;
  double real(const char* key) const;
  bool flag(const char* key) const;
  std::string text(const char* key) const;
  std::vector<std::string> texts(const char* key) const;

  /// "'fanouts' of the batch options is 7; give ..."
  [[noreturn]] void refuse(const char* key, const nlohmann::json& value, const std::string& give) const;

 private:
  [[noreturn]] void fail(const std::string& message) const;
  const nlohmann::json& object_;
  const std::string what_;
  const ErrorCode code_;
};

/// Whether `value` is a whole number from `least` to `most`, and written as one.
bool is_whole(const nlohmann::json& value, std::int64_t least, std::int64_t most);

}  // namespace hopfeed
