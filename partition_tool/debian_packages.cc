// See debian_packages.h. Format: deb-control(5); relations: Debian Policy, chapter 7.
#include "partition_tool/debian_packages.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "core/base/error.h"

extern char** environ;

namespace hopfeed {
namespace {

std::string_view trim(std::string_view text) {
  const std::size_t begin = text.find_first_not_of(" \t\n\r");
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(" \t\n\r") - begin + 1);
}

/// "role::program, use::editing" gives both.
void append_tags(std::string_view field, std::vector<std::string_view>& tags) {
  while (!field.empty()) {
    const std::size_t end = std::min(field.find(','), field.size());
    if (const std::string_view tag = trim(field.substr(0, end)); !tag.empty()) tags.push_back(tag);
    field.remove_prefix(std::min(end + 1, field.size()));
  }
}

/// "Ada <ada@example.org>" is "ada@example.org".
std::string_view address_of(std::string_view maintainer) {
  const std::size_t begin = maintainer.rfind('<'), end = maintainer.rfind('>');
  if (begin == std::string_view::npos || end == std::string_view::npos || end < begin) return maintainer;
  return trim(maintainer.substr(begin + 1, end - begin - 1));
}

void take_relations(std::string_view key, std::string_view value, DebianPackage& package) {
  const auto field = std::find(std::begin(kDebianRelations), std::end(kDebianRelations), key);
  if (field == std::end(kDebianRelations)) return;
  std::vector<std::string_view> names;
  append_related(value, names);
  for (std::string_view name : names)
    package.relations.push_back(
        {.kind = static_cast<int>(field - std::begin(kDebianRelations)), .name = name});
}

void take_field(std::string_view key, std::string_view value, DebianPackage& package) {
  if (key == "Package")
    package.name = trim(value);
  else if (key == "Section")
    package.section = trim(value.substr(value.rfind('/') + 1));  // npos + 1 is 0
  else if (key == "Description" || (key == "Description-en" && package.summary.empty()))
    package.summary = trim(value.substr(0, value.find('\n')));
  else if (key == "Source")
    package.source = trim(value.substr(0, value.find('(')));  // before a version
  else if (key == "Maintainer")
    package.maintainer = address_of(trim(value));
  else if (key == "Tag")
    append_tags(value, package.tags);
  else
    take_relations(key, value, package);
}

/// Joins the records of one name; the first that was read comes first.
std::vector<DebianPackage> join_by_name(std::vector<DebianPackage> records) {
  std::stable_sort(records.begin(), records.end(),
                   [](const DebianPackage& a, const DebianPackage& b) { return a.name < b.name; });
  std::vector<DebianPackage> packages;
  for (DebianPackage& record : records) {
    if (packages.empty() || packages.back().name != record.name) {
      packages.push_back(std::move(record));
      continue;
    }
    DebianPackage& first = packages.back();
    first.relations.insert(first.relations.end(), record.relations.begin(), record.relations.end());
    first.tags.insert(first.tags.end(), record.tags.begin(), record.tags.end());
  }
  return packages;
}

}  // namespace

void append_related(std::string_view field, std::vector<std::string_view>& names) {
  while (!field.empty()) {
    const std::size_t end = field.find_first_of(",|");
    const std::string_view one = trim(field.substr(0, end));
    const std::string_view name =
        one.substr(0, one.find_first_of(" \t\n:([<"));  // before version, architecture, profile
    if (!name.empty()) names.push_back(name);
    if (end == std::string_view::npos) return;
    field.remove_prefix(end + 1);
  }
}

std::vector<DebianPackage> parse_debian_packages(std::string_view text, const std::string& origin) {
  std::vector<DebianPackage> records;
  DebianPackage package;
  std::int64_t number = 0;
  const auto refuse = [&](const char* what) {
    throw Error(ErrorCode::kInvalid, fmt::format("{}, line {}: {}", origin, number, what));
  };
  const auto end_record = [&] {
    if (package.source.empty()) package.source = package.name;
    if (!package.name.empty())
      records.push_back(std::move(package));
    else if (!package.section.empty() || !package.summary.empty() || !package.relations.empty())
      refuse("a record without a Package field ends here");
    package = {};
  };
  while (!text.empty()) {
    // One field: its first line and the lines after it that begin with a space or tab.
    std::size_t end = text.find('\n');
    std::int64_t lines = 1;
    while (end != std::string_view::npos && end + 1 < text.size() &&
           (text[end + 1] == ' ' || text[end + 1] == '\t')) {
      end = text.find('\n', end + 1);
      ++lines;
    }
    const std::string_view field = text.substr(0, end);
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
    ++number;
    if (trim(field).empty()) {
      end_record();
    } else {
      const std::size_t colon = field.find(':');
      if (colon == std::string_view::npos || colon > field.find('\n'))
        refuse("expected 'Field: value' of a Debian package record");
      take_field(field.substr(0, colon), field.substr(colon + 1), package);
    }
    number += lines - 1;
  }
  end_record();
  return join_by_name(std::move(records));
}

std::string read_apt_dump() {
  int pipe[2];
  if (::pipe2(pipe, O_CLOEXEC) != 0) throw_errno("cannot make a pipe for apt-cache", errno);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, pipe[1], STDOUT_FILENO);
  posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
  std::string program = "apt-cache", command = "dumpavail";
  char* arguments[] = {program.data(), command.data(), nullptr};
  pid_t child = 0;
  const int spawned = posix_spawnp(&child, program.c_str(), &actions, nullptr, arguments, environ);
  posix_spawn_file_actions_destroy(&actions);
  ::close(pipe[1]);
  std::string text;
  if (spawned == 0) {
    std::vector<char> buffer(1 << 16);
    for (ssize_t got;
         (got = ::read(pipe[0], buffer.data(), buffer.size())) > 0 || (got < 0 && errno == EINTR);)
      text.append(buffer.data(), std::max<ssize_t>(got, 0));
  }
  ::close(pipe[0]);
  if (spawned != 0) {
    throw Error(ErrorCode::kUnsupported,
                fmt::format("cannot run apt-cache ({}): this machine has no apt; import a saved dump with "
                            "--dump, or use hopfeed-partition generate",
                            std::strerror(spawned)));
  }
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
    throw Error(
        ErrorCode::kUnsupported,
        "apt-cache dumpavail failed; import a saved dump with --dump, or use hopfeed-partition generate");
  return text;
}

}  // namespace hopfeed
