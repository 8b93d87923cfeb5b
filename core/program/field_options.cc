// See field_options.h.
#include "core/program/field_options.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <functional>
#include <map>
#include <utility>

#include "core/base/cache_size.h"
#include "core/base/error.h"
#include "core/base/limits.h"
#include "core/batch/batch_options.h"
#include "core/program/parse_option.h"

namespace hopfeed {
namespace {

/// The options of all fields, by the fields' names.
class Spellings final : public FieldVisitor {
 public:
  void any(const Field& field) override { options_[field.name] = field.option_name(); }

  std::string operator[](const std::string& field) const {
    const auto option = options_.find(field);
    return option == options_.end() ? "" : option->second;
  }

 private:
  std::map<std::string, std::string> options_;
};

class Adder final : public FieldVisitor {
 public:
  Adder(CommandLine& line, const Spellings& spellings, const std::set<std::string>& groups)
      : line_(line), spellings_(spellings), groups_(groups) {}

  std::vector<std::string> of_workers() { return std::move(of_workers_); }

  void flag(const Field& field, bool& value) override {
    if (!wanted(field)) return;
    const std::string option = field.option_name();
    option.starts_with("--no-") ? line_.flag_off(option, value, help(field))
                                : line_.flag(option, value, help(field));
    note(field);
  }
  void whole(const Field& field, int& value, WholeRange range) override { number(field, value, range); }
  void whole(const Field& field, std::int64_t& value, WholeRange range) override {
    number(field, value, range);
  }
  void optional_whole(const Field& field, std::optional<std::int64_t>& value) override {
    plain(field, value, {});
  }
  void unsigned_whole(const Field& field, std::uint64_t& value) override { plain(field, value, {}); }
  void real(const Field& field, double& value) override { plain(field, value, {}); }
  void text(const Field& field, std::string& value) override { plain(field, value, {}); }
  void choice(const Field& field, const Choice& choice) override {
    const OptionRules rules{.one_of = {choice.names.begin(), choice.names.end()}};
    read(field, fmt::format("{}", fmt::join(choice.names, "|")), choice.get(), rules, choice.set);
  }
  void texts(const Field& field, std::vector<std::string>& value) override {
    read(field, "TEXT", "", {},
         [&value, name = field.name](const std::string& text) { value = parse_names(text, name); });
  }
  void all_or_texts(const Field& field, std::optional<std::vector<std::string>>& value) override {
    read(field, "TEXT", "all", {}, [&value, name = field.name](const std::string& text) {
      if (text != "all") value = parse_names(text, name);
    });
  }
  void numbers(const Field& field, std::vector<int>& value) override {
    if (!wanted(field)) return;
    line_.numbers_option(field.option_name(), value, help(field) + " (0,2-3)");
    note(field);
  }
  void fanouts(const Field& field, std::vector<std::int64_t>& value) override {
    read(field, "TEXT", fmt::format("{}", fmt::join(value, ",")), {},
         [&value, name = field.name](const std::string& text) { value = parse_fanouts(text, name); });
  }
  void typed_fanouts(const Field& field, std::map<std::string, std::vector<std::int64_t>>& value) override {
    read(field, "TEXT", "", {}, [&value](const std::string& text) { value = parse_edge_fanouts(text); });
  }
  void bytes(const Field& field, std::size_t& value) override {
    if (!wanted(field)) return;
    line_.size_option(field.option_name(), value, help(field) + " (4G, 512M)");
    note(field);
  }
  void seconds(const Field& field, std::chrono::milliseconds& value) override {
    read(field, "NUMBER", fmt::format("{}", value.count() / 1000), {},
         [&value, option = field.option_name()](const std::string& text) {
           value = std::chrono::seconds(parse_whole<std::int64_t>(text, option, 1, kMaxDeadlineMs / 1000));
         });
  }
  void cache_size(const Field& field, CacheSize& value) override {
    read(field, "TEXT", "", {}, [&value, option = field.option_name()](const std::string& text) {
      value = parse_cache_size(text, option);
    });
  }
  void optional_cache_size(const Field& field, std::optional<CacheSize>& value) override {
    read(field, "TEXT", "", {}, [&value, option = field.option_name()](const std::string& text) {
      value = parse_cache_size(text, option);
    });
  }

 private:
  bool wanted(const Field& field) const {
    return groups_.contains(field.group) && !field.option_name().empty();
  }
  std::string help(const Field& field) const {
    return respelled(field.option_help != nullptr ? field.option_help : field.help,
                     [this](const std::string& name) { return spellings_[name]; });
  }
  void note(const Field& field) {
    line_.stands_for(field.option_name(), field.name);
    if (field.of_workers) of_workers_.push_back(field.option_name());
  }

  template <class Value>
  void plain(const Field& field, Value& value, const OptionRules& rules) {
    if (!wanted(field)) return;
    line_.option(field.option_name(), value, help(field), rules);
    note(field);
  }
  template <class Whole>
  void number(const Field& field, Whole& value, WholeRange range) {
    plain(field, value, {.min = range.least, .max = range.most});
  }
  /// What `take` throws names the field: here it is told as the option.
  void read(const Field& field, const std::string& type, const std::string& shown, const OptionRules& rules,
            std::function<void(const std::string&)> take) {
    if (!wanted(field)) return;
    const std::string option = field.option_name();
    line_.option(option, type, shown, help(field), rules,
                 [take = std::move(take), option, name = std::string(field.name)](const std::string& text) {
                   try {
                     take(text);
                   } catch (const Error& error) {
                     throw Error(error.code(), spelled(error.message(), [&](std::string_view marked) {
                                   return marked == name ? option : std::string(marked);
                                 }));
                   }
                 });
    note(field);
  }

  CommandLine& line_;
  const Spellings& spellings_;
  const std::set<std::string>& groups_;
  std::vector<std::string> of_workers_;
};

}  // namespace

std::vector<std::string> add_field_options(CommandLine& line, const VisitFields& visit,
                                           const std::set<std::string>& groups) {
  Spellings spellings;
  visit(spellings);
  Adder adder(line, spellings, groups);
  visit(adder);
  return adder.of_workers();
}

}  // namespace hopfeed
