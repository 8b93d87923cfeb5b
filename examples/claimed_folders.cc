// See claimed_folders.h.
#include "examples/claimed_folders.h"

#include <algorithm>
#include <system_error>

namespace hopfeed {
namespace {

namespace fs = std::filesystem;

bool is_there(const fs::path& path) {
  std::error_code error;
  return fs::exists(path, error);
}

bool has_files(const fs::path& folder) {
  std::error_code error;
  for (fs::recursive_directory_iterator entry(folder, error), end; !error && entry != end;
       entry.increment(error))
    if (!entry->is_directory(error)) return true;
  return false;
}

}  // namespace

void ClaimedFolders::add(const fs::path& folder, const std::string& name) {
  Folder& added = folders_.emplace_back(Folder{.path = folder, .name = name, .made = {}});
  if (is_there(folder / "manifest.json") || is_there(folder / ".begun.json")) return;  // of another run
  for (const fs::path& path : {folder / name, folder / ".layers", folder / ".begun.json", folder / ".lock"})
    if (!is_there(path)) added.made.push_back(path);
  for (fs::path path = folder; path.has_relative_path() && !is_there(path); path = path.parent_path())
    added.made.push_back(path);
}

ClaimedFolders::~ClaimedFolders() {
  const auto written = [](const Folder& folder) { return has_files(folder.path / folder.name); };
  if (std::ranges::any_of(folders_, written)) return;
  if (has_files(layers_ / "layers") || has_files(layers_ / "boundary")) return;
  std::error_code ignored;
  for (const Folder& folder : folders_)
    for (const fs::path& path : folder.made) {
      if (path == folder.path / ".layers") fs::remove_all(path, ignored);
      fs::remove(path, ignored);  // of folders those that are empty
    }
}

}  // namespace hopfeed
