// Reads one object of a JSON text field by field, checked: what comes over a wire or from a file is never
// told in the words of the JSON library, and no number is cut to fit. CheckedJson reads; those who derive
// from it say what is wrong with a value that does not fit. JsonFields has the words of most.
#pragma once
#include <cstdint>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/error.h"

namespace hopfeed {

/// JsonWanted says what was wanted where something else is.
enum class JsonWanted {
  kObject,    // itself; the fault has neither key nor value
  kKnownKey,  // one of `known`
  kAnything,  // under the key
  kWhole,     // from `least` to `most`
  kUnsigned,  // a whole number from 0 to 2^64 - 1
  kReal,
  kFlag,  // true or false
  kText,
  kList,    // of `most_items` at most, and so are these:
  kWholes,  // a list of whole numbers from `least` to `most`
  kTexts,   // a list of texts
};

struct JsonFault {
  JsonWanted wanted{};
  std::string_view key = {};
  const nlohmann::json* value = nullptr;  // null: there is no such key
  std::int64_t least = INT64_MIN, most = INT64_MAX, most_items = INT64_MAX;
  const nlohmann::json* item = nullptr;  // the one that does not fit; null: `value` is no such list
  std::span<const std::string_view> known = {};
};

class CheckedJson {
 public:
  bool has(const char* key) const { return object_.contains(key); }
  /// Throws naming a key that is not one of `keys`.
  void only(const std::vector<std::string_view>& keys) const;
  /// Throws where the key is missing. So do all functions below, and where the value is of another kind or
  /// out of its range.
  const nlohmann::json& at(const char* key) const;
  std::int64_t whole(const char* key, std::int64_t least, std::int64_t most) const;
  /// Reads a number from 0 to 2^64 - 1.
  std::uint64_t unsigned_whole(const char* key) const;
  double real(const char* key) const;
  bool flag(const char* key) const;
  std::string text(const char* key) const;
  const nlohmann::json& list(const char* key, std::int64_t most_items = INT64_MAX) const;
  std::vector<std::int64_t> wholes(const char* key, std::int64_t least, std::int64_t most,
                                   std::int64_t most_items = INT64_MAX) const;
  std::vector<std::string> texts(const char* key, std::int64_t most_items = INT64_MAX) const;

 protected:
  /// `object` must outlive this. require_object() says whether it is one; until then it lacks every key.
  explicit CheckedJson(const nlohmann::json& object) : object_(object) {}
  CheckedJson(const CheckedJson&) = default;
  ~CheckedJson() = default;
  void require_object() const;
  /// Throws an error that tells the fault.
  [[noreturn]] virtual void complain(const JsonFault& fault) const = 0;

 private:
  const nlohmann::json* find(const char* key) const;
  const nlohmann::json& list_of(const char* key, JsonFault fault) const;
  const nlohmann::json& object_;
};

/// JsonFields names the field and the object in every complaint, shows the value, and says what it may be; it
/// throws with `code`.
class JsonFields final : public CheckedJson {
 public:
  /// `what` names the object: "the batch spec". `object` must outlive this. Throws where it is none.
  JsonFields(const nlohmann::json& object, std::string what, ErrorCode code = ErrorCode::kInvalid);

 private:
  [[noreturn]] void complain(const JsonFault& fault) const override;
  const std::string what_;
  const ErrorCode code_;
};

/// Returns whether `value` is a whole number from `least` to `most`, and written as one.
bool is_whole(const nlohmann::json& value, std::int64_t least, std::int64_t most);

}  // namespace hopfeed
