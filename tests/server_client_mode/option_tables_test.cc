// The tables of options in the docs are those of the code (core/base/field_table.h). With
// HOPFEED_WRITE_TABLES=1 in the environment they are written anew.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>
#include <string>
#include <vector>

#include "core/base/field_table.h"
#include "server_client_mode/client/remote_execution.h"
#include "stream/loader_options.h"

namespace hopfeed {
namespace {

template <class Options>
std::vector<FieldRow> rows_of(Options options) {
  return field_table([&](FieldVisitor& fields) { options.visit(fields); });
}

using Rows = std::vector<FieldRow>;

/// `rows` without those of `others`.
Rows without(const Rows& rows, const Rows& others) {
  std::set<std::string> gone;
  for (const FieldRow& row : others) gone.insert(row.name);
  Rows left;
  for (const FieldRow& row : rows)
    if (!gone.contains(row.name)) left.push_back(row);
  return left;
}

Rows joined(Rows rows, const Rows& more) {
  rows.insert(rows.end(), more.begin(), more.end());
  return rows;
}

std::string keyword_table(const Rows& rows) {
  std::string text = "| keyword | type | default |\n|---|---|---|\n";
  for (const FieldRow& row : rows) {
    if (row.keyword.empty()) continue;
    std::string type;
    for (const char c : row.type) type += c == '|' ? std::string("or") : std::string(1, c);
    text += "| `" + row.keyword + "` | " + type + " | `" + row.python_default + "` |\n";
  }
  return text;
}

std::string read(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

void expect_table(const std::string& file, const std::string& name, const std::string& table) {
  const std::filesystem::path path = std::filesystem::path(std::getenv("HOPFEED_SOURCE")) / "docs" / file;
  const std::string begin = "<!-- options: " + name + " -->\n", end = "<!-- end -->\n";
  std::string text = read(path);
  const std::size_t from = text.find(begin);
  ASSERT_NE(from, std::string::npos) << file << " has no table of " << name;
  const std::size_t first = from + begin.size(), last = text.find(end, first);
  ASSERT_NE(last, std::string::npos) << file << ": the table of " << name << " has no end";
  if (std::getenv("HOPFEED_WRITE_TABLES") != nullptr) {
    text.replace(first, last - first, table);
    std::ofstream(path, std::ios::binary) << text;
    return;
  }
  EXPECT_EQ(text.substr(first, last - first), table)
      << file << ": the table of " << name
      << " is another; write it anew: HOPFEED_WRITE_TABLES=1, and this test";
}

TEST(OptionTables, OfTheDocs_AreThoseOfTheCode) {
  const Rows loader = rows_of(LoaderOptions{}), batch = rows_of(BatchOptions{}),
             link = rows_of(LinkOptions{}), deal = rows_of(DealOptions{}),
             execution = rows_of(LocalExecution{}), gpu = rows_of(GpuOptions{}),
             features = rows_of(FeatureTiers{}), partitions = rows_of(PeerOptions{}),
             remote = rows_of(RemoteExecution{});
  const auto expect_rows = [](const std::string& name, const Rows& rows) {
    expect_table("loader.md", name, field_table_text(rows));
  };
  expect_rows("seeds", without(loader, joined(joined(batch, deal), execution)));
  expect_rows("batch", without(batch, link));
  expect_rows("link", link);
  expect_rows("deal", deal);
  expect_rows("execution", without(execution, joined(joined(gpu, features), partitions)));
  expect_rows("gpu", gpu);
  expect_rows("features", features);
  expect_rows("partitions", partitions);
  expect_rows("servers", remote);
  expect_table("python.md", "keywords", keyword_table(joined(loader, remote)));
}

TEST(OptionTables, OfEveryField_HaveHelpAndOneKeyword) {
  std::set<std::string> keywords;
  for (const FieldRow& row : joined(rows_of(LoaderOptions{}), rows_of(RemoteExecution{}))) {
    if (row.keyword.empty()) continue;
    EXPECT_TRUE(keywords.insert(row.keyword).second) << row.keyword;
    EXPECT_FALSE(row.help.empty()) << row.name;
    EXPECT_FALSE(row.help.ends_with('.')) << row.help;
  }
}

}  // namespace
}  // namespace hopfeed
