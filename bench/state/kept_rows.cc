// See kept_rows.h.
#include "bench/state/kept_rows.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <thread>
#include <vector>

#include "bench/measure.h"
#include "core/base/error.h"
#include "core/base/owned_fd.h"
#include "state/owner/shard_file.h"

namespace hopfeed::bench {
namespace fs = std::filesystem;
namespace {

constexpr int kSaveRounds = 3;
constexpr double kRest = 8;  // seconds

/// A file of so many bytes from warm memory, synced, and removed behind the measured time.
class BareFile {
 public:
  BareFile(const fs::path& path, std::int64_t bytes) : path_(path) {
    const OwnedFd fd(open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600));
    if (!fd) throw_errno("cannot write " + path.string(), errno);
    const std::vector<std::byte> part(std::size_t{8} << 20, std::byte{5});
    while (bytes > 0) {
      stop_if_asked();
      const auto now = static_cast<std::size_t>(std::min(bytes, std::ssize(part)));
      if (const int error = write_all(fd.get(), std::span(part).first(now)); error != 0)
        throw_errno("cannot write " + path.string(), error);
      bytes -= static_cast<std::int64_t>(now);
    }
    if (fsync(fd.get()) != 0) throw_errno("cannot sync " + path.string(), errno);
  }
  ~BareFile() { unlink(path_.c_str()); }
  BareFile(const BareFile&) = delete;
  BareFile& operator=(const BareFile&) = delete;

 private:
  const fs::path path_;
};

/// Until owners have given back what messages took: they look every three seconds.
void rest() {
  for (const double end = now() + kRest; now() < end; stop_if_asked())
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
}

}  // namespace

void measure_memory(const StateServers& servers, std::size_t before, LearnedRows& rows, Report& report) {
  DistRows& table = rows.rank(0);
  Report& memory = report["memory"];
  memory["rested_seconds"] = kRest;
  std::int64_t learned = 0;
  for (int part = 0; part < kParts; ++part) {
    rows.learn(part);
    learned += std::ssize(rows_of_part(table.rows(), part, 0, 1));
    const int percent = 100 * (part + 1) / kParts;
    if (percent != 10 && percent != 50 && percent != 100) continue;
    rest();
    const auto resident = static_cast<double>(servers.own_bytes() - before),
               expected =
                   static_cast<double>(learned * (stored_row_bytes(table.spec()) + 16) + 4 * table.rows());
    memory[fmt::format("learned_{}", percent)] = {{"resident_bytes", resident},
                                                  {"expected_bytes", expected},
                                                  {"resident_over_expected", resident / expected}};
  }
}

void measure_checkpoint(const BenchOptions& options, const fs::path& folder, LearnedRows& rows,
                        Report& report) {
  std::vector<double> saves, bares, ratios;
  std::int64_t bytes = 0;
  for (int round = 0; round < kSaveRounds; ++round) {
    sync();
    double begin = now();
    const std::vector<ShardSum> shards = rows.rank(0).save(static_cast<std::uint64_t>(round));
    saves.push_back(now() - begin);
    rows.rank(0).keep({});  // none
    sync();
    bytes = 0;
    std::vector<std::unique_ptr<BareFile>> files(shards.size());
    for (const ShardSum& shard : shards) bytes += shard.bytes;
    begin = now();
    at_ranks(std::ssize(shards), [&](std::int64_t i) {  // as many at once as there are owners
      const auto n = static_cast<std::size_t>(i);
      files[n] =
          std::make_unique<BareFile>(folder / fmt::format("bare-write-{}-{}", getpid(), i), shards[n].bytes);
    });
    bares.push_back(now() - begin);
    ratios.push_back(saves.back() / bares.back());
  }
  report["checkpoint_bytes"] = bytes;
  report["checkpoint_rows"] = options.rows;
  report["checkpoint_seconds"] = median(saves);
  report["bare_write_seconds"] = median(bares);
  report["checkpoint_over_bare_write"] = median(ratios);
}

}  // namespace hopfeed::bench
