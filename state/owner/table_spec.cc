// See table_spec.h.
#include "state/owner/table_spec.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "core/base/field_json.h"
#include "core/base/field_visitor.h"
#include "core/base/json_text.h"
#include "core/base/limits.h"
#include "core/base/plain_text.h"

namespace hopfeed {
namespace {

constexpr std::size_t kMaxName = 128;
constexpr std::array<ElementType, 4> kTypes{ElementType::kFloat32, ElementType::kFloat16,
                                            ElementType::kBfloat16, ElementType::kInt64};

bool may_be_in_a_file_name(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '-' ||
         c == '.';
}

VisitFields visit_of(TableSpec& spec) {
  return [&spec](FieldVisitor& fields) { spec.visit(fields); };
}

}  // namespace

std::int64_t TableSpec::row_bytes() const { return width * static_cast<std::int64_t>(element_bytes(dtype)); }

void TableSpec::visit(FieldVisitor& fields) {
  fields.text({.name = "name", .help = "What it is called"}, name);
  fields.text({.name = "node_type", .help = "It has a row for each node of this type"}, node_type);
  fields.choice({.name = "kind", .help = "Whether anybody writes rows, or ranks learn them"},
                {.names = {"tensor", "embedding"},
                 .get = [this] { return std::string(kind == Kind::kTensor ? "tensor" : "embedding"); },
                 .set =
                     [this](const std::string& given) {
                       kind = given == "tensor" ? Kind::kTensor : Kind::kEmbedding;
                     }});
  fields.choice({.name = "dtype", .help = "Type of its numbers"},
                {.names = {"float32", "float16", "bfloat16", "int64"},
                 .get = [this] { return std::string(to_string(dtype)); },
                 .set = [this](const std::string& given) { dtype = element_type_from(given); }});
  fields.whole({.name = "width", .help = "Numbers of a row"}, width, {1, kMaxHidden});
  fields.choice(
      {.name = "first_values", .help = "What rows hold that nobody has written"},
      {.names = {"zeros", "uniform"},
       .get = [this] { return std::string(first_values == FirstValues::kZeros ? "zeros" : "uniform"); },
       .set =
           [this](const std::string& given) {
             first_values = given == "zeros" ? FirstValues::kZeros : FirstValues::kUniform;
           }});
  fields.unsigned_whole({.name = "seed", .help = "Of first values that are uniform"}, seed);
  fields.choice({.name = "optimizer", .help = "How an embedding learns"},
                {.names = {"sparse_adam", "adagrad", "row_wise_adagrad", "sgd"},
                 .get = [this] { return std::string(name_of(optimizer.optimizer)); },
                 .set = [this](const std::string& given) { optimizer.optimizer = row_optimizer(given); }});
  fields.real({.name = "lr", .help = "Its learning rate"}, optimizer.lr);
  fields.real({.name = "beta1", .help = "sparse_adam: share of the running means that stays"},
              optimizer.beta1);
  fields.real({.name = "beta2", .help = "sparse_adam: share of the running squares that stays"},
              optimizer.beta2);
  fields.real({.name = "epsilon", .help = "Added to the root of squares"}, optimizer.epsilon);
}

void TableSpec::validate() const {
  require_valid(!name.empty() && name.size() <= kMaxName && name.front() != '.' &&
                    std::ranges::all_of(name, may_be_in_a_file_name),
                fmt::format("a table is called '{}'; use 1 to {} letters, digits, '_', '-' and '.', and no "
                            "'.' first",
                            as_line(name, kMaxName), kMaxName));
  require_valid(width >= 1 && width <= kMaxHidden,
                fmt::format("table '{}' is {} wide; use 1 to {}", name, width, kMaxHidden));
  require_valid(std::ranges::find(kTypes, dtype) != kTypes.end(),
                fmt::format("table '{}' is of type {}; use float32, float16, bfloat16 or int64", name,
                            to_string(dtype)));
  require_valid(first_values == FirstValues::kZeros || dtype != ElementType::kInt64,
                fmt::format("table '{}' is of type int64, whose first values are zeros", name));
  if (kind == Kind::kTensor) return;
  require_valid(dtype == ElementType::kFloat32,
                fmt::format("table '{}' is learned, and of type {}; use float32", name, to_string(dtype)));
  optimizer.validate();
}

std::string TableSpec::to_json() const {
  TableSpec spec = *this, unset;
  return json_text(fields_to_json(visit_of(spec), visit_of(unset)));
}

TableSpec TableSpec::from_json(const std::string& text, ErrorCode code) {
  TableSpec spec;
  fields_from_json(parse_json(text), "the table", visit_of(spec), code);
  spec.validate();
  return spec;
}

const TableSpec& TableSpec::require_kind(Kind wanted) const {
  require_valid(kind == wanted,
                wanted == Kind::kTensor
                    ? fmt::format("table '{}' is learned step by step, and not written", name)
                    : fmt::format("table '{}' is written, and not learned step by step", name));
  return *this;
}

void TableSpec::require_same(const TableSpec& other) const {
  if (*this == other) return;
  const nlohmann::json mine = parse_json(to_json()), others = parse_json(other.to_json());
  std::string differences;
  for (const auto& [key, value] : mine.items())
    if (value != others.at(key))
      differences += fmt::format("{}{} {} there and {} here", differences.empty() ? "" : ", ", key,
                                 value.dump(), others.at(key).dump());
  throw Error(ErrorCode::kInvalid,
              fmt::format("table '{}' is there, and another one: {}; use another name, or the same table",
                          name, differences));
}

}  // namespace hopfeed
