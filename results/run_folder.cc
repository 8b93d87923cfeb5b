// See run_folder.h.
#include "results/run_folder.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>
#include <system_error>
#include <thread>
#include <utility>

#include "core/base/atomic_file.h"
#include "core/base/error.h"
#include "core/base/json_fields.h"
#include "core/base/json_text.h"
#include "core/base/mapped_file.h"

namespace hopfeed {
namespace {

constexpr std::array<std::string_view, 7> kOurs = {".lock",  "run.json", "left.json", "ended.json",
                                                   "layers", "boundary", "fetched"};
constexpr std::size_t kMostRunBytes = std::size_t{1} << 20;

/// Of the run alone: a note that comes late is none of the next one's.
std::filesystem::path notes_path(const std::filesystem::path& folder, RunId run, const LayerName& name) {
  return folder / "fetched" / to_text(run) / name.table;
}

std::filesystem::path fetched_path(const std::filesystem::path& folder, RunId run, const LayerName& name,
                                   int partition) {
  return notes_path(folder, run, name) / fmt::format("{}.p{:06d}", name.node_type, partition);
}

/// Is there where a table's rows were removed.
std::filesystem::path removed_path(const std::filesystem::path& folder, RunId run, const LayerName& name) {
  return notes_path(folder, run, name) / (name.node_type + ".removed");
}

void make_folder(const std::filesystem::path& folder) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) throw_errno("cannot make the folder " + folder.string(), error.value());
}

/// Again where a note of another process came into a folder just then.
void remove_whole(const std::filesystem::path& path) {
  std::error_code error;
  for (int tries = 0; tries < 100; ++tries) {
    std::filesystem::remove_all(path, error);
    if (error != std::errc::directory_not_empty) break;
  }
  if (error) throw_errno("cannot remove " + path.string(), error.value());
}

/// A lock of the whole file.
struct flock whole(short type) {
  struct flock lock = {};
  lock.l_type = type;
  lock.l_whence = SEEK_SET;
  return lock;
}

/// None where another process has the lock.
OwnedFd try_lock(const std::filesystem::path& folder) {
  const std::filesystem::path path = folder / ".lock";
  OwnedFd file(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644));
  if (!file) throw_errno("cannot open " + path.string(), errno);
  struct flock lock = whole(F_WRLCK);
  if (::fcntl(file.get(), F_OFD_SETLK, &lock) == 0) return file;
  if (errno == EAGAIN || errno == EACCES) return OwnedFd();
  throw_errno("cannot lock " + path.string(), errno);
}

/// A server holds the lock for a moment too, while it removes what a run has left (remove_if_fetched): its
/// word of the run first.
OwnedFd locked(const std::filesystem::path& folder) {
  constexpr std::chrono::milliseconds kStep{10}, kLook{200}, kRemoval{10'000};
  const auto begin = std::chrono::steady_clock::now();
  for (;; std::this_thread::sleep_for(kStep)) {
    OwnedFd lock = try_lock(folder);
    if (lock) return lock;
    std::error_code error;
    const bool has_run = std::filesystem::exists(folder / "run.json", error);
    if (std::chrono::steady_clock::now() - begin > (has_run ? kLook : kRemoval))
      throw Error(ErrorCode::kBusy,
                  "another run computes in " + folder.string() + "; wait for it, or give another folder");
  }
}

void remove_run(const std::filesystem::path& folder) {
  remove_whole(folder / "run.json");  // first: what is left without it is nobody's
  for (const char* const name : {"left.json", "fetched", "layers", "boundary"}) remove_whole(folder / name);
}

/// An empty file, whose name says it all. None where its folder was removed just then.
void touch(const std::filesystem::path& path) {
  make_folder(path.parent_path());
  const OwnedFd file(::open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0644));
  if (!file && errno != ENOENT) throw_errno("cannot write " + path.string(), errno);
}

/// What a folder's file says; none where there is no such file, which others may remove at any time.
std::optional<nlohmann::json> json_of(const std::filesystem::path& path) try {
  return parse_json(read_text_file(path, kMostRunBytes));
} catch (const Error& error) {
  if (error.code() != ErrorCode::kNotFound) throw;
  return std::nullopt;
}

/// Which run a folder's file names; none where it says nothing.
std::optional<RunId> run_of(const std::filesystem::path& folder, const char* file = "run.json") {
  const std::optional<nlohmann::json> json = json_of(folder / file);
  if (!json) return std::nullopt;
  return run_id_of(JsonFields(*json, (folder / file).string(), ErrorCode::kCorrupt).text("run"));
}

/// The same, where a word that is damaged is none.
std::optional<RunId> readable_run_of(const std::filesystem::path& folder, const char* file = "run.json") try {
  return run_of(folder, file);
} catch (const Error& error) {
  if (error.code() != ErrorCode::kCorrupt && error.code() != ErrorCode::kInvalid) throw;
  return std::nullopt;
}

void write_run(const std::filesystem::path& path, nlohmann::json about, RunId run) {
  about["run"] = to_text(run);
  AtomicFile file(path);
  file.write(json_text(about, 1));
  file.commit();
}

/// Of a run that is over, and whose rows nobody needs any more.
void end_run(const std::filesystem::path& folder, RunId run) {
  write_run(folder / "ended.json", nlohmann::json::object(), run);
  remove_run(folder);
}

/// Returns the partitions whose machines have yet to fetch rows that a run, which is over, has left for them.
std::vector<std::int64_t> yet_to_fetch(const std::filesystem::path& folder) {
  const std::filesystem::path path = folder / "left.json";
  const std::optional<nlohmann::json> left = json_of(path);
  const std::optional<RunId> run = readable_run_of(folder);
  if (!left || !run) return {};
  const JsonFields fields(*left, path.string(), ErrorCode::kCorrupt);
  std::error_code error;
  std::vector<std::int64_t> waiting;
  for (const std::int64_t part : fields.wholes("partitions", 0, INT32_MAX))
    for (const nlohmann::json& table : fields.list("tables")) {
      const LayerName name{.table = table.at(0).get<std::string>(),
                           .node_type = table.at(1).get<std::string>()};
      if (std::filesystem::exists(fetched_path(folder, *run, name, static_cast<int>(part)), error)) continue;
      waiting.push_back(part);
      break;
    }
  return waiting;
}

/// Throws kBusy where other machines have yet to fetch rows of the folder's run.
void require_fetched(const std::filesystem::path& folder) {
  const std::vector<std::int64_t> waiting = yet_to_fetch(folder);
  if (!waiting.empty())
    throw Error(ErrorCode::kBusy,
                fmt::format("{} has rows of an earlier run, which the machine with partition {} has yet to "
                            "fetch; let that run end there, or remove the folder",
                            folder.string(), fmt::join(waiting, ", ")));
}

/// A folder is one of ours where it is empty, or has our lock and nothing that we do not make.
void require_ours(const std::filesystem::path& folder) {
  std::error_code error;
  const bool has_lock = std::filesystem::exists(folder / ".lock", error);
  for (std::filesystem::directory_iterator entry(folder, error), end; !error && entry != end;
       entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    const bool ours = std::find(kOurs.begin(), kOurs.end(), name) != kOurs.end() ||
                      name.starts_with(".run.json.") || name.starts_with(".left.json.") ||
                      name.starts_with(".ended.json.");
    if (!ours || !has_lock)
      throw Error(ErrorCode::kInvalid, folder.string() + " has '" + name +
                                           "', which no inference has made; give an empty or a new folder");
  }
}

}  // namespace

RunFolder::RunFolder(std::filesystem::path folder, RunId run, const std::string& about, Sync sync,
                     LeftRows left)
    : folder_(std::move(folder)),
      layers_{.path = folder_ / "layers", .run = run, .sync = sync},
      boundary_{.path = folder_ / "boundary", .run = run, .sync = sync} {
  require_ours(folder_);
  make_folder(folder_);
  lock_ = locked(folder_);
  const std::optional<RunId> before = readable_run_of(folder_);
  if (before != run && left == LeftRows::kStay) require_fetched(folder_);
  remove_whole(folder_ / "left.json");
  if (before == run) return;
  is_new_ = true;
  remove_run(folder_);
  if (readable_run_of(folder_, "ended.json") == run) remove_whole(folder_ / "ended.json");
  write_run(folder_ / "run.json", parse_json(about), run);
}

void RunFolder::remove(const LayerName& name) const {
  touch(removed_path(folder_, run(), name));
  layers_.remove(name);
}

bool RunFolder::fetched(const LayerName& name, int partition) const {
  std::error_code error;
  return std::filesystem::exists(fetched_path(folder_, run(), name, partition), error);
}

void RunFolder::clear() { end_run(folder_, run()); }

void RunFolder::leave(const std::vector<LayerName>& tables, const std::vector<int>& partitions) const {
  nlohmann::json left = {{"tables", nlohmann::json::array()}, {"partitions", partitions}};
  for (const LayerName& name : tables) left["tables"].push_back({name.table, name.node_type});
  AtomicFile file(folder_ / "left.json");
  file.write(json_text(left));
  file.commit();
}

bool remove_if_fetched(const std::filesystem::path& folder) {
  std::error_code error;
  if (!std::filesystem::exists(folder / "left.json", error)) return false;
  const OwnedFd lock = try_lock(folder);
  if (!lock || !std::filesystem::exists(folder / "left.json", error)) return false;
  if (!yet_to_fetch(folder).empty()) return false;
  if (const std::optional<RunId> run = readable_run_of(folder)) end_run(folder, *run);
  remove_run(folder);
  return true;
}

void wait_until_fetched(const std::filesystem::path& folder, RunId run, std::chrono::milliseconds deadline,
                        const std::function<void()>& while_waiting) {
  const auto end = std::chrono::steady_clock::now() + deadline;
  const auto is_left = [&] {
    const std::optional<RunId> there = readable_run_of(folder);
    return there && *there != run && !yet_to_fetch(folder).empty();
  };
  while (is_left() && std::chrono::steady_clock::now() < end) {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    if (while_waiting) while_waiting();
  }
}

RunState run_state(const std::filesystem::path& folder, RunId run) {
  std::error_code error;
  if (!std::filesystem::is_directory(folder, error))
    throw Error(ErrorCode::kNotFound, folder.string() + " is no folder");
  const OwnedFd file(::open((folder / ".lock").c_str(), O_RDONLY | O_CLOEXEC));
  bool computing = false;
  if (file) {
    struct flock lock = whole(F_WRLCK);
    if (::fcntl(file.get(), F_OFD_GETLK, &lock) != 0) throw_errno("cannot look at " + folder.string(), errno);
    computing = lock.l_type != F_UNLCK;
  }
  const std::optional<RunId> there = run_of(folder);
  if (there && *there != run) return computing ? RunState::kAnother : RunState::kAnotherIsOver;
  return computing ? RunState::kComputing : RunState::kNobody;
}

bool has_run(const std::filesystem::path& folder, RunId run) { return readable_run_of(folder) == run; }

bool has_ended(const std::filesystem::path& folder, RunId run) {
  return readable_run_of(folder, "ended.json") == run;
}

void note_fetched(const std::filesystem::path& folder, RunId run, const LayerName& name, int partition) {
  touch(fetched_path(folder, run, name, partition));
}

bool was_removed(const std::filesystem::path& folder, RunId run, const LayerName& name) {
  std::error_code error;
  return std::filesystem::exists(removed_path(folder, run, name), error) &&
         !std::filesystem::exists(layers_of(folder, {}).table_folder(name), error);
}

LayerFolder layers_of(const std::filesystem::path& folder, RunId run) {
  return {.path = folder / "layers", .run = run};
}

}  // namespace hopfeed
