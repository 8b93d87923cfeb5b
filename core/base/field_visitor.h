// A FieldVisitor is told of the fields of an options struct, which says them once: its function
// visit(FieldVisitor&) hands over each field with its name, its range and a line of help. JSON both ways
// (field_json.h), the options of programs (core/program/field_options.h), Python's keyword arguments and the
// tables of the docs (field_table.h) come from it. A default is what a new struct holds. Rules between fields
// are code, in validate().
#pragma once
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace hopfeed {

/// Whether the JSON form has the field where it holds its default.
enum class InJson {
  kAlways,
  /// BatchOptions leave it out, and a BatchSpec has null for it, so that a lost key is missed there.
  kOrNull,
  /// Both leave it out. Every option younger than this enum is one: texts without it, of older clients and
  /// checkpoints, are read, and the text of those who do not set it stays.
  kWhereSet,
};

struct Field {
  /// As messages and docs have it: "walk.length".
  const char* name;
  /// One line without a full stop. `another_field` in backticks is told in the spelling of who reads it.
  const char* help;
  /// The name in a program; null: --name with dashes, from its last dot on; empty: programs have no such
  /// option.
  const char* option = nullptr;
  /// Python's keyword; null: what stands behind the last dot of the name; empty: Python has none.
  const char* keyword = nullptr;
  /// JSON's name of it; null: what stands behind the last dot of the name.
  const char* key = nullptr;
  /// The line of a program's --help where it is another; null: `help`.
  const char* option_help = nullptr;
  /// The type in Python's annotations where it is another than that of all such fields; null: theirs.
  const char* type = nullptr;
  /// What programs add together ("draws"); each adds the groups that it has.
  const char* group = "";
  /// Whether it is of sampling on this machine, which servers choose for themselves.
  bool of_workers = false;
  InJson in_json = InJson::kAlways;

  /// Names with what may be missing put in.
  std::string option_name() const;
  std::string keyword_name() const;
  std::string key_name() const;
};

struct WholeRange {
  std::int64_t least = INT64_MIN, most = INT64_MAX;
};

/// A field that is written as one of some names. The functions stay valid as long as the struct.
struct Choice {
  std::vector<const char*> names;
  std::function<std::string()> get;
  /// Throws kInvalid for another name.
  std::function<void(const std::string& name)> set;
};

struct CacheSize;

/// References that are handed over are to the struct that is visited, so they stay valid as long as it does.
class FieldVisitor {
 public:
  virtual ~FieldVisitor() = default;

  /// Every field comes here unless the function below it is overridden.
  virtual void any(const Field&) {}

  virtual void flag(const Field& field, bool&) { any(field); }
  virtual void whole(const Field& field, int&, WholeRange) { any(field); }
  virtual void whole(const Field& field, std::int64_t&, WholeRange) { any(field); }
  virtual void optional_whole(const Field& field, std::optional<std::int64_t>&) { any(field); }
  virtual void unsigned_whole(const Field& field, std::uint64_t&) { any(field); }
  virtual void real(const Field& field, double&) { any(field); }
  virtual void text(const Field& field, std::string&) { any(field); }
  virtual void choice(const Field& field, const Choice&) { any(field); }
  /// Names, none of them empty.
  virtual void texts(const Field& field, std::vector<std::string>&) { any(field); }
  /// Not set: all that there are.
  virtual void all_or_texts(const Field& field, std::optional<std::vector<std::string>>&) { any(field); }
  /// Numbers of cores, of GPUs, of partitions.
  virtual void numbers(const Field& field, std::vector<int>&) { any(field); }
  /// Neighbours to draw, hop by hop.
  virtual void fanouts(const Field& field, std::vector<std::int64_t>&) { any(field); }
  virtual void typed_fanouts(const Field& field, std::map<std::string, std::vector<std::int64_t>>&) {
    any(field);
  }
  virtual void bytes(const Field& field, std::size_t&) { any(field); }
  /// In seconds where people write it, in milliseconds in JSON.
  virtual void seconds(const Field& field, std::chrono::milliseconds&) { any(field); }
  virtual void cache_size(const Field& field, CacheSize&) { any(field); }
  virtual void optional_cache_size(const Field& field, std::optional<CacheSize>&) { any(field); }
  /// Programs and Python read it from a file that they are given the name of.
  virtual void secret(const Field& field, std::string&) { any(field); }
  /// A value of another kind ("int64 [S]"), which programs and Python take by code of their own.
  virtual void special(const Field& field, const char*) { any(field); }
  /// Fields that JSON has within an object of their own.
  virtual void object(const Field& field, const std::function<void(FieldVisitor&)>& visit) {
    (void)field;
    visit(*this);
  }
};

/// `help` in which `spelling` has put another text for each field in backticks; one that it gives nothing for
/// stays as it is, without the backticks.
std::string respelled(std::string_view help,
                      const std::function<std::string(const std::string& field)>& spelling);

/// The visit() of one struct.
using VisitFields = std::function<void(FieldVisitor&)>;

}  // namespace hopfeed
