// See push_dataset.h.
#include "partition_tool/program/push_dataset.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>

#include "core/base/error.h"
#include "core/base/limits.h"
#include "core/base/mapped_file.h"
#include "core/base/temporary_owner.h"
#include "core/program/stop_signals.h"
#include "partition_tool/program/push_plan.h"
#include "partition_tool/program/rsync.h"
#include "partition_tool/program/tool.h"

namespace hopfeed {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr const char *kManifest = "meta.json", *kPushing = ".meta.json.pushing";
/// What a manifest's folder has for it: these two, and what a killed rsync left of them.
const std::vector<std::string> kManifests{"meta.json", ".meta.json.*", "..meta.json.*"};
constexpr std::uint64_t kCompareAtOnce = std::uint64_t{1} << 30;  // bytes, at least
constexpr std::uint64_t kCompareSteps = 50;

/// A folder of this machine for the lists and manifests that rsync reads; gone at the end of the scope.
class PushScratch {
 public:
  PushScratch() {
    const fs::path target = fs::temp_directory_path() / "hopfeed-push";
    sweep_abandoned(target);
    path_ = temporary_beside(target);
    if (mkdir(path_.c_str(), 0700) != 0) throw_errno("cannot make the folder " + path_.string(), errno);
  }
  ~PushScratch() {
    std::error_code error;
    fs::remove_all(path_, error);
  }
  PushScratch(const PushScratch&) = delete;
  PushScratch& operator=(const PushScratch&) = delete;

  std::string folder(const std::string& name) const {
    fs::create_directories(path_ / name);  // what rsync makes there gets its mode
    fs::permissions(path_ / name, fs::perms(0755));
    return (path_ / name).string();
  }
  std::string write(const std::string& name, const std::string& text) const {
    std::ofstream out(path_ / name, std::ios::binary);
    out << text;
    out.close();
    if (!out)
      throw Error(ErrorCode::kIo, fmt::format("cannot write {}; is its disk full?", (path_ / name).string()));
    return (path_ / name).string();
  }

 private:
  fs::path path_;
};

std::uint64_t bytes_of(const std::vector<PushFile>& files) {
  std::uint64_t sum = 0;
  for (const PushFile& file : files) sum += file.bytes;
  return sum;
}

std::uint64_t largest_of(const std::vector<PushFile>& files) {
  std::uint64_t largest = 0;
  for (const PushFile& file : files) largest = std::max(largest, file.bytes);
  return largest;
}

std::string size_text(std::uint64_t bytes) {
  return fmt::format("{:.1f} MB", static_cast<double>(bytes) / 1e6);
}

std::string files_text(const std::vector<PushFile>& files) {
  return fmt::format("{} file{}, {}", files.size(), files.size() == 1 ? "" : "s", size_text(bytes_of(files)));
}

std::string partitions_text(const std::vector<int>& partitions) {
  return fmt::format("partition{} {}", partitions.size() == 1 ? "" : "s", in_words(partitions));
}

/// Parts of about the same size, for a bar that moves.
std::vector<std::vector<PushFile>> in_groups(const std::vector<PushFile>& files) {
  const std::uint64_t at_once = std::max(kCompareAtOnce, bytes_of(files) / kCompareSteps);
  std::vector<std::vector<PushFile>> groups;
  std::uint64_t bytes = at_once;
  for (const PushFile& file : files) {
    if (bytes >= at_once) {
      groups.emplace_back();
      bytes = 0;
    }
    groups.back().push_back(file);
    bytes += file.bytes;
  }
  return groups;
}

/// One machine of the plan.
class Push {
 public:
  Push(const PushOptions& options, const PushPlan& plan, const PushTarget& target, const PushScratch& scratch)
      : options_(options),
        plan_(plan),
        target_(target),
        scratch_(scratch),
        rsync_({.ssh = options.ssh, .timeout = options.timeout, .bandwidth = options.bandwidth}, target_),
        files_(files_for(plan, target)) {}

  /// Asks what is there; nothing is written.
  void look() {
    std::vector<std::string> manifests;
    std::string other;
    for (const std::string& name : rsync_.list()) {
      if (name == kManifest || name == kPushing)
        manifests.push_back(name);
      else if (name != "lost+found" && !name.starts_with(".meta.json.") && !name.starts_with("..meta.json."))
        other = name;
    }
    if (manifests.empty() && !other.empty())
      throw Error(ErrorCode::kInvalid,
                  fmt::format("{} holds something else ('{}') and no dataset; name a folder of "
                              "its own, new or empty",
                              target_.place, other));
    if (!manifests.empty()) {
      const std::string there = scratch_.folder("there");
      rsync_.fetch(manifests, there);
      for (const std::string& name : manifests) require_same(fs::path(there) / name);
      fs::remove_all(there);
    }
    whole_ = manifests == std::vector<std::string>{kManifest};
    const std::vector<std::string> names =
        rsync_.different(plan_.folder, list(files_), options_.checksum, bytes_of(files_), largest_of(files_));
    const std::set<std::string> wanted(names.begin(), names.end());
    for (const PushFile& file : files_)
      if (wanted.contains(file.path)) unsent_.push_back(file);
  }

  void run() {
    const auto begin = std::chrono::steady_clock::now();
    if (!unsent_.empty() || !whole_) {
      retract();
      if (!unsent_.empty()) send();
    }
    compare();
    if (!unsent_.empty() || !whole_) publish();
    seconds_ = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    fmt::print("{}: {}, {}; {} sent, all compared by checksums ({:.1f} s)\n", target_.place,
               partitions_text(target_.partitions), files_text(files_), files_text(unsent_), seconds_);
  }

  void show() const {
    fmt::print("{}: {}, {}; {} would be sent\n", target_.place, partitions_text(target_.partitions),
               files_text(files_), files_text(unsent_));
    std::map<std::string, std::vector<PushFile>> folders;
    for (const PushFile& file : files_) folders[file.path.substr(0, file.path.find('/'))].push_back(file);
    for (const auto& [folder, files] : folders) fmt::print("  {}: {}\n", folder, files_text(files));
    fmt::print("  {}: when all else is there and compared\n", kManifest);
  }

  json report() const {
    return {{"to", target_.place},
            {"partitions", target_.partitions},
            {"files", files_.size()},
            {"bytes", bytes_of(files_)},
            {options_.dry_run ? "unsent_files" : "sent_files", unsent_.size()},
            {options_.dry_run ? "unsent_bytes" : "sent_bytes", bytes_of(unsent_)},
            {"seconds", seconds_}};
  }

 private:
  std::string list(const std::vector<PushFile>& files) const {
    std::string text;
    for (const PushFile& file : files) text += file.path + "\n";
    return scratch_.write("list", text);
  }

  void require_same(const fs::path& manifest) const {
    const bool half = manifest.filename() == kPushing;
    if (!fs::exists(manifest)) return;  // gone since it was listed
    const std::string text = read_text_file(manifest, kMaxMetaBytes);
    if (text == plan_.meta_text) return;
    const std::string what = half ? "begins to be" : "holds";
    DatasetMeta meta;
    try {
      meta = parse_meta(text, manifest.string());
    } catch (const Error&) {
      throw Error(ErrorCode::kInvalid,
                  fmt::format("{} has a {} that is damaged or of another version; look at it, and remove the "
                              "folder if nothing in it is needed",
                              target_.place, manifest.filename().string()));
    }
    if (manifest_hash(meta) == manifest_hash(plan_.meta)) return;  // the same, made by another command
    const bool same = meta.fingerprint == plan_.meta.fingerprint;
    throw Error(
        ErrorCode::kInvalid,
        fmt::format(
            "{} {} {} ({}, {} partition{}, fingerprint {}), not {}; name another folder, or remove that one",
            target_.place, what, same ? "another cut of the same dataset" : "another dataset", meta.name,
            meta.partitions, meta.partitions == 1 ? "" : "s", meta.fingerprint, plan_.name));
  }

  /// From here until publish() the folder there is no dataset.
  void retract() const {
    const std::string stage = scratch_.folder("begin");
    scratch_.write(fmt::format("begin/{}", kPushing), plan_.meta_text);
    rsync_.replace(stage, kManifests);
  }

  void publish() const {
    const std::string stage = scratch_.folder("end");
    scratch_.write(fmt::format("end/{}", kManifest), plan_.meta_text);
    rsync_.replace(stage, kManifests);
  }

  void send() {
    const std::uint64_t total = bytes_of(unsent_);
    const std::string step = "Pushing to " + target_.place;
    bars_.show({step.c_str(), "B", 0, total});
    rsync_.send(plan_.folder, list(unsent_), options_.checksum, largest_of(unsent_), [&](std::uint64_t done) {
      bars_.show({step.c_str(), "B", std::min(done, total), total});
    });
    bars_.show({step.c_str(), "B", total, total});
    bars_.finish();
  }

  void compare() {
    const std::uint64_t total = bytes_of(files_);
    const std::string step = "Comparing " + target_.place;
    std::vector<std::string> names;
    std::uint64_t done = 0;
    for (const std::vector<PushFile>& group : in_groups(files_)) {
      bars_.show({step.c_str(), "B", done, total});
      const auto found =
          rsync_.different(plan_.folder, list(group), true, bytes_of(group), largest_of(group));
      names.insert(names.end(), found.begin(), found.end());
      done += bytes_of(group);
    }
    bars_.show({step.c_str(), "B", done, total});
    bars_.finish();
    if (names.empty()) return;
    if (unsent_.empty() && whole_) retract();  // meta.json would say that all is well
    throw Error(
        ErrorCode::kCorrupt,
        fmt::format("{}: {}{} differs there from {}; its disk is failing or something wrote there. "
                    "--checksum sends again what differs",
                    target_.place, names.front(),
                    names.size() > 1 ? fmt::format(" (and {} more)", names.size() - 1) : "", plan_.name));
  }

  const PushOptions& options_;
  const PushPlan& plan_;
  const PushTarget& target_;
  const PushScratch& scratch_;
  const Rsync rsync_;
  const std::vector<PushFile> files_;
  std::vector<PushFile> unsent_;
  bool whole_ = false;  // it was a dataset before
  double seconds_ = 0;
  Bars bars_;
};

}  // namespace

void push_dataset(const PushOptions& options) {
  JsonReport report(options.json);
  const PushPlan plan = plan_push(options.folder, options.to, options.parts);
  if (!plan.left_out.empty())
    fmt::print(stderr, "hopfeed-partition: warning: {} of {} {} pushed nowhere\n",
               partitions_text(plan.left_out), plan.name, plan.left_out.size() == 1 ? "is" : "are");
  const auto has_all = [&](const PushTarget& target) {
    return target.partitions.size() == static_cast<std::size_t>(plan.meta.partitions);
  };
  if (!plan.meta.can_be_shared_out() && !std::ranges::all_of(plan.targets, has_all))
    fmt::print(
        stderr,
        "hopfeed-partition: warning: {} was cut by an earlier release, without what a machine that has "
        "some partitions alone needs; cut it again (hopfeed-partition partition)\n",
        plan.name);
  const PushScratch scratch;
  std::vector<std::unique_ptr<Push>> pushes;
  for (const PushTarget& target : plan.targets) {
    pushes.push_back(std::make_unique<Push>(options, plan, target, scratch));
    pushes.back()->look();
  }
  json machines = json::array();
  try {
    for (const std::unique_ptr<Push>& push : pushes) {
      options.dry_run ? push->show() : push->run();
      machines.push_back(push->report());
    }
  } catch (const Interrupted&) {
    throw Interrupted{"what was pushed stays there; run it again, and it goes on where it stopped"};
  }
  report.write({{"dataset", plan.name},
                {"fingerprint", plan.meta.fingerprint},
                {"dry_run", options.dry_run},
                {"machines", machines},
                {"pushed_nowhere", plan.left_out}});
}

}  // namespace hopfeed
