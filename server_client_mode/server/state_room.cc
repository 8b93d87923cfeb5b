// See state_room.h.
#include "server_client_mode/server/state_room.h"

#include <fmt/format.h>
#include <unistd.h>

#include <string_view>
#include <system_error>

#include "core/base/atomic_file.h"
#include "core/base/error.h"
#include "state/owner/owned_rows.h"

namespace hopfeed {
namespace fs = std::filesystem;
namespace {

constexpr std::size_t kLongestName = 128;  // of a folder's 255 bytes
constexpr std::size_t kOfFingerprint = 8;

bool is_fit_for_a_folder(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '.';
}

void make_folder(const fs::path& folder) {
  std::error_code error;
  fs::create_directories(folder, error);
  if (error) throw_errno(fmt::format("--state: cannot make the folder {}", folder.string()), error.value());
}

/// Nobody else's file has that name, and it is gone at once: most file systems have one without a name.
void try_to_write(const fs::path& folder) {
  char host[256] = "";
  gethostname(host, sizeof(host) - 1);
  AtomicFile trial(folder / fmt::format("trial-{}-{}", host, getpid()), "--state: ", Sync::kNo);
  trial.write(std::string_view("trial"));
}

}  // namespace

std::string state_title(const DatasetMeta& meta) {
  std::string name = meta.name.substr(0, kLongestName);
  for (char& c : name)
    if (!is_fit_for_a_folder(c)) c = '_';
  if (name.starts_with('.')) name.front() = '_';
  return name + "-" + meta.fingerprint.substr(0, kOfFingerprint);
}

std::vector<fs::path> make_state_folders(const std::string& parent, const ServedDatasets& datasets) {
  std::vector<fs::path> folders;
  for (const ServedDataset& served : datasets.all()) {
    folders.push_back(fs::absolute(parent) / state_title(served.meta()));
    make_folder(folders.back());
    try_to_write(folders.back());
  }
  return folders;
}

void log_state_rows(const ServedDatasets& datasets, const EventLog& log) {
  for (const ServedDataset& served : datasets.all()) {
    for (std::size_t type = 0; type < served.meta().node_types.size(); ++type) {
      const std::int64_t rows = OwnedRows(*served.dataset, static_cast<int>(type)).count();
      log.add("state_rows", {{"dataset", served.meta().name},
                             {"node_type", served.meta().node_types[type].name},
                             {"rows", std::to_string(rows)}});
    }
  }
}

}  // namespace hopfeed
