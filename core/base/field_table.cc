// See field_table.h.
#include "core/base/field_table.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <utility>

#include "core/base/cache_size.h"

namespace hopfeed {
namespace {

class Rows final : public FieldVisitor {
 public:
  explicit Rows(std::vector<FieldRow>& rows) : rows_(rows) {}

  void flag(const Field& field, bool& value) override {
    // An option --no-... turns off what is on.
    add(field, "bool", value ? "true" : "false", value ? "True" : "False");
  }
  void whole(const Field& field, int& value, WholeRange) override { add_number(field, "int", value); }
  void whole(const Field& field, std::int64_t& value, WholeRange) override {
    add_number(field, "int", value);
  }
  void optional_whole(const Field& field, std::optional<std::int64_t>&) override {
    add(field, "int", "", "None");
  }
  void unsigned_whole(const Field& field, std::uint64_t& value) override { add_number(field, "int", value); }
  void real(const Field& field, double& value) override { add_number(field, "float", value); }
  void text(const Field& field, std::string& value) override {
    add(field, "str", value, value.empty() ? "None" : fmt::format("\"{}\"", value));
  }
  void choice(const Field& field, const Choice& choice) override {
    std::vector<std::string> names;
    for (const char* name : choice.names) names.push_back(fmt::format("\"{}\"", name));
    add(field, fmt::format("Literal[{}]", fmt::join(names, ", ")), choice.get(),
        fmt::format("\"{}\"", choice.get()));
  }
  void texts(const Field& field, std::vector<std::string>&) override {
    add(field, "Sequence[str]", "", "None");
  }
  void all_or_texts(const Field& field, std::optional<std::vector<std::string>>&) override {
    add(field, "Sequence[str]", "all", "None");
  }
  void numbers(const Field& field, std::vector<int>&) override { add(field, "Sequence[int]", "", "None"); }
  void fanouts(const Field& field, std::vector<std::int64_t>& value) override {
    const std::string list = fmt::format("{}", fmt::join(value, ", "));
    add(field, "Sequence[int]", list, "(" + list + ")");
  }
  void typed_fanouts(const Field& field, std::map<std::string, std::vector<std::int64_t>>&) override {
    add(field, "Mapping[EdgeTypeName, Sequence[int]]", "", "None");
  }
  void bytes(const Field& field, std::size_t& value) override { add_number(field, "int", value); }
  void seconds(const Field& field, std::chrono::milliseconds& value) override {
    const double seconds = static_cast<double>(value.count()) / 1000;
    add(field, "float", fmt::format("{} s", seconds), fmt::format("{}", seconds));
  }
  void cache_size(const Field& field, CacheSize&) override { add(field, "str", "", "None"); }
  void optional_cache_size(const Field& field, std::optional<CacheSize>&) override {
    add(field, "str", "auto", "None");
  }
  void secret(const Field& field, std::string&) override { add(field, "str | os.PathLike[str]", "", "None"); }
  void special(const Field& field, const char* type) override { add(field, type, "", "None"); }

 private:
  template <class Number>
  void add_number(const Field& field, const char* type, Number value) {
    add(field, type, fmt::format("{}", value), fmt::format("{}", value));
  }
  void add(const Field& field, std::string type, std::string value, std::string python_default) {
    rows_.push_back({.name = field.name,
                     .option = field.option_name(),
                     .keyword = field.keyword_name(),
                     .type = field.type != nullptr ? field.type : std::move(type),
                     .value = std::move(value),
                     .python_default = std::move(python_default),
                     .help = field.help});
  }

  std::vector<FieldRow>& rows_;
};

std::string in_code(const std::string& name) { return name.empty() ? "" : "`" + name + "`"; }

}  // namespace

std::vector<FieldRow> field_table(const VisitFields& unset) {
  std::vector<FieldRow> rows;
  Rows visitor(rows);
  unset(visitor);
  return rows;
}

std::string field_table_text(const std::vector<FieldRow>& rows) {
  std::string text = "| option | in programs | in Python | default | |\n|---|---|---|---|---|\n";
  for (const FieldRow& row : rows) {
    if (row.option.empty() && row.keyword.empty()) continue;  // set by other fields
    text += fmt::format("| {} | {} | {} | {} | {} |\n", in_code(row.name), in_code(row.option),
                        in_code(row.keyword), row.value, row.help);
  }
  return text;
}

}  // namespace hopfeed
