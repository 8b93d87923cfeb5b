// See check_input.h.
#include "partition_tool/check_input.h"

#include <fmt/format.h>
#include <xxhash.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <vector>

#include "core/base/error.h"
#include "core/base/parallel_ranges.h"

namespace hopfeed {
namespace {

constexpr std::size_t kPieceBytes = 32 << 20;

}  // namespace

void check_input(const Dataset& dataset, int threads, const Progress& progress) {
  struct Piece {
    const std::string* name;
    const FileMeta* file;
  };
  std::vector<Piece> files;
  std::uint64_t total = 0;
  for (const auto& [name, file] : dataset.meta().files) {
    if (is_derived_path(name)) continue;
    files.push_back({&name, &file});
    total += file.bytes;
  }
  std::ranges::sort(files, [](const Piece& a, const Piece& b) { return a.file->bytes > b.file->bytes; });
  std::atomic<std::size_t> next = 0;
  std::atomic<std::uint64_t> done = 0;
  parallel_ranges(threads, std::ssize(files), [&](int worker, std::int64_t, std::int64_t) {
    const std::unique_ptr<XXH3_state_t, decltype(&XXH3_freeState)> state(XXH3_createState(), &XXH3_freeState);
    for (std::size_t i; (i = next++) < files.size();) {
      const MappedFile file(dataset.folder() / *files[i].name);
      XXH3_64bits_reset(state.get());
      for (std::size_t at = 0; at < file.bytes().size(); at += kPieceBytes) {
        const auto piece = file.bytes().subspan(at, std::min(kPieceBytes, file.bytes().size() - at));
        XXH3_64bits_update(state.get(), piece.data(), piece.size());
        done += piece.size();
        if (worker == 0) progress({"Checking the input", "B", done, total});
      }
      if (file.bytes().size() != files[i].file->bytes ||
          XXH3_64bits_digest(state.get()) != files[i].file->xxh3)
        throw Error(
            ErrorCode::kCorrupt,
            fmt::format("{} is damaged: its checksum is not what meta.json says; run hopfeed-partition "
                        "verify",
                        file.path().string()));
    }
  });
  progress({"Checking the input", "B", total, total});
}

}  // namespace hopfeed
