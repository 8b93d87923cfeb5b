// See dataset_writer.h.
#include "core/dataset/dataset_writer.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>

#include <cerrno>
#include <fstream>

#include "core/base/atomic_file.h"
#include "core/base/disk_room.h"
#include "core/base/error.h"
#include "core/base/failpoint.h"
#include "core/base/json_text.h"
#include "core/base/limits.h"
#include "core/base/temporary_owner.h"

namespace hopfeed {
namespace fs = std::filesystem;
namespace {

[[noreturn]] void refuse_existing(const fs::path& target) {
  throw Error(ErrorCode::kInvalid, target.string() + " exists; choose another folder or pass --overwrite");
}

/// Whether it is a folder, and no link to one, that may be replaced by a dataset.
bool is_dataset_or_empty(const fs::path& folder) {
  std::error_code error;
  return fs::is_directory(fs::symlink_status(folder, error)) &&
         (fs::is_empty(folder, error) || fs::exists(folder / "meta.json", error));
}

/// 0 where it cannot be looked at.
std::uint64_t device_of(const fs::path& path) {
  struct stat status {};
  return stat(path.c_str(), &status) == 0 ? status.st_dev : 0;
}
std::uint64_t inode_of(const fs::path& path) {
  struct stat status {};
  return lstat(path.c_str(), &status) == 0 ? status.st_ino : 0;
}

[[noreturn]] void refuse_other_thing(const fs::path& target) {
  throw Error(ErrorCode::kInvalid, target.string() + " is not a hopfeed dataset; it is left as it is");
}

}  // namespace

void refuse_inside_dataset(const fs::path& target, const std::string& prefix) {
  std::error_code ignored;
  const fs::path beside = fs::weakly_canonical(fs::absolute(target).parent_path(), ignored);
  for (fs::path folder = beside; folder != folder.parent_path(); folder = folder.parent_path()) {
    if (!fs::is_regular_file(folder / "meta.json", ignored)) continue;
    std::ifstream file(folder / "meta.json");
    const std::string text((std::istreambuf_iterator<char>(file)), {});
    if (text.find("\"hopfeed-dataset\"") == std::string::npos) continue;
    throw Error(ErrorCode::kInvalid, prefix + target.string() + " lies inside the dataset " +
                                         folder.string() + "; choose a place outside of it");
  }
}

void MadeFolders::make(const fs::path& folder) {
  std::vector<fs::path> missing;
  std::error_code error;
  for (fs::path at = folder; !fs::exists(at, error) && at != at.parent_path(); at = at.parent_path())
    missing.push_back(at);
  for (; !missing.empty(); missing.pop_back()) {
    const bool made = fs::create_directory(missing.back(), error);
    if (error) throw_errno("cannot create " + folder.string(), error.value());
    if (made) made_.push_back(missing.back());
  }
}

MadeFolders::~MadeFolders() {
  std::error_code ignored;  // one that something lies in stays
  for (; !made_.empty(); made_.pop_back()) fs::remove(made_.back(), ignored);
}

DatasetWriter::DatasetWriter(const fs::path& folder, DatasetWriterOptions options) : options_(options) {
  if (folder.empty()) throw Error(ErrorCode::kInvalid, "the dataset folder has no name; give one");
  target_ = fs::absolute(folder).lexically_normal();
  if (!target_.has_filename()) target_ = target_.parent_path();  // "dir/"
  require_utf8(target_, "the dataset folder");
  const std::string name = target_.string();
  std::error_code error;
  const bool exists = fs::exists(target_, error);
  if (!exists && fs::is_symlink(target_, error))  // the rename at the end would find it in its place
    throw Error(ErrorCode::kInvalid, name + " is a symbolic link to " +
                                         fs::read_symlink(target_, error).string() +
                                         ", which is not there; remove the link or name another folder");
  if (exists && !fs::is_directory(target_))
    throw Error(ErrorCode::kInvalid, name + " exists and is not a folder; choose another name");
  if (exists && fs::is_symlink(target_, error)) target_ = fs::canonical(target_, error);
  if (exists && !fs::is_empty(target_, error)) {
    if (!options_.overwrite) refuse_existing(name);
    if (!is_dataset_or_empty(target_)) refuse_other_thing(name);
  }
  if (exists && device_of(target_) != device_of(target_.parent_path()))
    throw Error(ErrorCode::kInvalid,
                name + " is where a disk is mounted, which cannot be renamed; name a folder in it");
  refuse_inside_dataset(target_);
  parents_.make(target_.parent_path());
  sweep_abandoned(target_);
  begin(temporary_beside(target_), options_.sync);
  FAILPOINT("dataset.write");
}

DatasetWriter::~DatasetWriter() {
  std::error_code ignored;  // a destructor can do no more; the next writer sweeps
  if (!committed_) fs::remove_all(temporary_folder(), ignored);
}

void DatasetWriter::require_room(std::uint64_t bytes) const {
  require_disk_room(temporary_folder(), bytes, target_);
}

void DatasetWriter::commit(DatasetMeta meta) {
  meta.files = files();
  const std::string text = format_meta(meta);
  if (text.size() > kMaxMetaBytes)
    throw Error(ErrorCode::kInvalid,
                "meta.json would be larger than " + std::to_string(kMaxMetaBytes) + " bytes");
  parse_meta(text, (target_ / "meta.json").string());  // what we write, we can read
  const bool synced = options_.sync == Sync::kYes;
  for (const fs::directory_entry& entry : fs::recursive_directory_iterator(temporary_folder())) {
    if (synced && entry.is_directory()) sync_folder(entry.path());
  }
  AtomicFile manifest(temporary_folder() / "meta.json", "", options_.sync);
  FAILPOINT("dataset.write");
  manifest.write(text);
  manifest.commit();
  if (FAILPOINT("dataset.write")) throw_errno("cannot write " + target_.string(), ENOSPC);
  rename_to_target();
  committed_ = true;
  parents_.keep();
  FAILPOINT("dataset.write");
  if (synced) sync_folder(target_.parent_path());
  // The old dataset, now under the temporary name, and who was still dying of SIGKILL when this writer began.
  sweep_abandoned(target_);
}

// Whatever has appeared there since the constructor looked is left as it is: nothing is replaced unasked.
void DatasetWriter::rename_to_target() {
  int failed = 0;
  constexpr int kTries = 3;  // what is there may come and go
  for (int i = 0; i < kTries; ++i) {
    std::error_code error;
    if (!options_.overwrite || !fs::exists(fs::symlink_status(target_, error))) {
      failed = rename_as(0);  // takes the place of an empty folder alone
      const bool taken = failed == ENOTEMPTY || failed == EEXIST || failed == ENOTDIR;
      if (taken && !options_.overwrite) refuse_existing(target_);
      if (!taken) break;
      continue;
    }
    if (!is_dataset_or_empty(target_)) refuse_other_thing(target_);
    const std::uint64_t own = inode_of(temporary_folder());
    failed = rename_as(RENAME_EXCHANGE);  // at no moment a reader finds nothing
    if (failed == 0 && !is_dataset_or_empty(temporary_folder())) put_back(own);
    if (failed != ENOENT) break;
  }
  if (failed != 0)
    throw_errno("cannot rename " + temporary_folder().string() + " to " + target_.string(), failed);
}

/// 0, or errno.
int DatasetWriter::rename_as(unsigned flags) const {
  return ::renameat2(AT_FDCWD, temporary_folder().c_str(), AT_FDCWD, target_.c_str(), flags) == 0 ? 0 : errno;
}

/// What the exchange has taken from the target's place is no dataset.
void DatasetWriter::put_back(std::uint64_t own) {
  committed_ = true;  // whose that is under the temporary name: it is not removed
  if (inode_of(target_) != own || rename_as(RENAME_EXCHANGE) != 0)
    throw Error(ErrorCode::kIo, "what was at " + target_.string() + " lies at " +
                                    temporary_folder().string() + " now; move it to where it belongs");
  committed_ = false;
  refuse_other_thing(target_);
}

}  // namespace hopfeed
