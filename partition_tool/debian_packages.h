// Reads package records in the form of Debian control files (deb822), as `apt-cache dumpavail` prints them.
#pragma once
#include <string>
#include <string_view>
#include <vector>

namespace hopfeed {

/// These fields relate packages. Names of edge types are made of them, so they stay in this order.
inline constexpr std::string_view kDebianRelations[] = {"Pre-Depends", "Depends", "Recommends", "Suggests",
                                                        "Enhances"};

struct DebianRelation {
  int kind = 0;           // of kDebianRelations
  std::string_view name;  // of the other package
  friend bool operator==(const DebianRelation&, const DebianRelation&) = default;
};

struct DebianPackage {
  std::string_view name;
  std::string_view section;  // without its archive area: "contrib/net" is "net"; empty where there is none
  std::string_view summary;  // first line of the description
  std::string_view source;   // package that it is built from; its own name where the record says nothing
  std::string_view
      maintainer;  // the address, or all of the field where it has none; empty where there is no field
  std::vector<std::string_view> tags;     // in order
  std::vector<DebianRelation> relations;  // in order
};

/// Returns packages by rising name. Where a name occurs more than once (several versions or architectures),
/// the first record gives the rest, and the tags and relations of all are joined. They view `text`. Throws
/// kInvalid naming `origin` and the line for text of another form.
std::vector<DebianPackage> parse_debian_packages(std::string_view text, const std::string& origin);

/// Appends the names in one relation field: "a (>= 1) | b:any, c [amd64]" gives a, b, c.
void append_related(std::string_view field, std::vector<std::string_view>& names);

/// Returns what apt knows on this machine: the output of `apt-cache dumpavail`. Throws kUnsupported where
/// there is no apt-cache, kIo where it fails.
std::string read_apt_dump();

}  // namespace hopfeed
