// A TableSpec says what a table of state is. Whoever opens it says the same.
#pragma once
#include <cstdint>
#include <string>

#include "core/base/element_type.h"
#include "core/base/error.h"
#include "state/table/row_formulas.h"

namespace hopfeed {

class FieldVisitor;  // core/base/field_visitor.h

struct TableSpec {
  enum class Kind {
    kTensor,     // rows that anybody writes at any time
    kEmbedding,  // rows that ranks learn, step by step
  };
  /// Of rows that nobody has written.
  enum class FirstValues {
    kZeros,
    kUniform,  // of (seed, original id): a row's length is 1 in the mean; of types with a fraction
  };

  std::string name;
  std::string node_type;
  Kind kind = Kind::kTensor;
  ElementType dtype = ElementType::kFloat32;  // of an embedding; tensors are also float16, bfloat16, int64
  std::int64_t width = 1;
  FirstValues first_values = FirstValues::kZeros;
  std::uint64_t seed = 0;
  RowOptimizerOptions optimizer = {};  // of an embedding

  bool operator==(const TableSpec&) const = default;
  std::int64_t row_bytes() const;  // of its values
  void visit(FieldVisitor& fields);
  /// Throws kInvalid naming the field.
  void validate() const;
  std::string to_json() const;
  /// Throws with `code` where the text is none, kInvalid where no table is like that.
  static TableSpec from_json(const std::string& text, ErrorCode code = ErrorCode::kCorrupt);
  /// Throws kInvalid, naming the table and each field that differs, unless `other` is the same.
  void require_same(const TableSpec& other) const;
  /// Returns this. Throws kInvalid, naming the table, where it is of the other kind.
  const TableSpec& require_kind(Kind wanted) const;
};

}  // namespace hopfeed
