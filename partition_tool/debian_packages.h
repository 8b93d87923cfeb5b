// Package records in the form of Debian control files (deb822), as `apt-cache dumpavail` prints them.
#pragma once
#include <string>
#include <string_view>
#include <vector>

namespace hopfeed {

struct DebianPackage {
  std::string_view name;
  std::string_view section;  // without its archive area: "contrib/net" is "net"; empty where there is none
  std::string_view summary;  // first line of the description
  std::vector<std::string_view>
      related;  // every name in Pre-Depends, Depends, Recommends, Suggests and Enhances, in order
};

/// Packages by rising name. Where a name occurs more than once (several versions or architectures), the first
/// record gives section and summary, and the relations of all are joined. Views into `text`. Throws kInvalid
/// naming `origin` and the line for text of another form.
std::vector<DebianPackage> parse_debian_packages(std::string_view text, const std::string& origin);

/// The names in one relation field: "a (>= 1) | b:any, c [amd64]" gives a, b, c.
void append_related(std::string_view field, std::vector<std::string_view>& names);

/// What apt knows on this machine: the output of `apt-cache dumpavail`. Throws kUnsupported where there is no
/// apt-cache, kIo where it fails.
std::string read_apt_dump();

}  // namespace hopfeed
