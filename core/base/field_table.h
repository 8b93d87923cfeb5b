// The fields of an options struct as rows of text (field_visitor.h): for the tables of the docs and for the
// signatures of Python's loaders.
#pragma once
#include <string>
#include <vector>

#include "core/base/field_visitor.h"

namespace hopfeed {

struct FieldRow {
  std::string name;            // "walk.length"
  std::string option;          // of programs; empty: they have none
  std::string keyword;         // of Python; empty: it has none
  std::string type;            // as Python's annotations have it: "Sequence[str] | None"
  std::string value;           // the default as docs have it: "15, 10, 5"; empty: none
  std::string python_default;  // as Python's source has it: "(15, 10, 5)"
  std::string help;            // in Markdown
};

/// Returns the rows in the order of the visit. `unset` visits a new struct: its values are the defaults.
std::vector<FieldRow> field_table(const VisitFields& unset);

/// Makes a table in Markdown: the names as messages of the library have them, those of programs and of
/// Python, the defaults, and what the options do.
std::string field_table_text(const std::vector<FieldRow>& rows);

}  // namespace hopfeed
