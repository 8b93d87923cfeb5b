// The JSON form of an options struct, from its visit() (field_visitor.h).
#pragma once
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "core/base/error.h"
#include "core/base/field_visitor.h"

namespace hopfeed {

/// Makes an object of the fields that are to be told. `unset` visits a new struct, whose values are the
/// defaults.
nlohmann::json fields_to_json(const VisitFields& visit, const VisitFields& unset);

/// Sets the fields from `object`, which messages call `what`; those that it may leave out stay as they are.
/// Throws with `code`, naming the key that is unknown, missing or has no such value.
void fields_from_json(const nlohmann::json& object, const std::string& what, const VisitFields& visit,
                      ErrorCode code = ErrorCode::kInvalid);

/// Returns the keys of the fields that JSON has so, sorted.
std::vector<std::string> keys_in_json(const VisitFields& visit, InJson in_json);

}  // namespace hopfeed
